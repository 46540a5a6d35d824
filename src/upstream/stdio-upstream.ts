/**
 * A server over stdio: one process for each session, or for each caller of a modern one, so many at most, and none that fails again
 * and again.
 */
import { UNBOUNDED } from './size-limits.ts';
import { inBackground } from '../lib/background.ts';
import type { Clock } from '../lib/clock.ts';
import { withoutPermit, type Channel, type ChannelListener } from '../model/channel.ts';
import { randomId } from '../lib/crypto.ts';
import type { ModernServer } from '../model/modern-server.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { EMPTY_PROFILE } from '../protocol/translate/client-profile.ts';
import type { LegacyRevision } from '../protocol/meta.ts';

import { AskingStyleDetector, BroadcastDetector } from './discovery/broadcast-detector.ts';
import { asUpstreamFailure, UpstreamFailure } from '../model/upstream-failure.ts';
import {
  OWN_HEADERS,
  type Greeting,
  type LegacyServer,
  type ServerOptions,
  type SessionRequest,
} from './legacy-server.ts';
import { modernCapabilities, ownMeta } from './discovery/modern-side.ts';
import { ModernProcess } from './modern/process.ts';
import { Session, type SessionOptions } from './session/session.ts';
import { logSession } from './session/session-log.ts';
import { networkHint, variablesHint } from './transport/stdio/passed-variables.ts';
import { ProcessChannel, type ProcessChannelOptions } from './transport/stdio/process-channel.ts';
import { ProcessOutput } from './transport/stdio/process-output.ts';
import { StartDelays } from './transport/stdio/start-delays.ts';
import { StdioTransport } from './transport/stdio/stdio.ts';
import { TRAITS } from './transport/traits.ts';
import type { TransportListener } from './transport/transport.ts';

/** After this time a process ends as soon as it serves no request, in ms: servers leak, and few of them for a day. */
const MAX_PROCESS_AGE_MS = 86_400_000;
/** How soon what a server speaks is asked again, in ms: that starts a process, and a client can be refused for what it says. */
const MIN_DOUBT_GAP_MS = 5_000;

export interface StdioUpstreamOptions extends ServerOptions {
  readonly era: 'auto' | 'legacy' | 'modern';
  readonly process: {
    readonly command: string;
    readonly args: readonly string[];
    /** The variables that the operator sets. */
    readonly env: Readonly<Record<string, string>>;
    /** The names of variables that the process gets from the environment of the gateway. */
    readonly inherited: readonly string[];
    readonly cwd: string | null;
  };
  readonly maxProcesses: number;
}

export type StdioKind = 'stdio' | 'modern-stdio';

interface RunningProcess {
  /** Ends it with little patience. */
  stop(): Promise<void>;
}

export class StdioUpstream implements LegacyServer {
  readonly traits = TRAITS.stdio;
  readonly askingStyle = 'uncorrelated';
  readonly mayIssueStates = false;
  readonly deliversResumed = false;
  readonly detector: BroadcastDetector;
  readonly #options: StdioUpstreamOptions;
  readonly #clock: Clock;
  readonly #delays: StartDelays;
  readonly #asking = new AskingStyleDetector();
  readonly #env: Readonly<Record<string, string>>;
  /** What may keep a server waiting, for a message. */
  readonly #networkHint: string;
  /** The processes that have not ended. */
  readonly #processes = new Set<RunningProcess>();
  /** The last process that said what the server is, while it ends. */
  #greeted: Promise<void> | null = null;
  #lastGreeting: Greeting | null = null;
  #revision: LegacyRevision | null = null;
  /** What a modern server said last in reply to `server/discover`; `null` while it is not known to be one. */
  #discovered: JsonObject | null = null;
  /** Called when a process shows that the server is not modern any more. */
  readonly legacyAgain = new Set<() => void>();
  #lastDoubtMs = -Infinity;
  #doubting: Promise<void> | null = null;

  constructor(options: StdioUpstreamOptions, clock: Clock) {
    const { inherited, env } = options.process;
    this.detector = new BroadcastDetector({ now: () => clock.now(), hasSiblings: false });
    this.#options = options;
    this.#clock = clock;
    this.#delays = new StartDelays(clock);
    const known = inherited.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value] as const];
    });
    this.#env = { ...Object.fromEntries(known), ...env };
    this.#networkHint = networkHint(process.env, this.#env);
  }

  get revision(): LegacyRevision | null {
    return this.#revision;
  }

  get hasOneSession(): boolean {
    return this.#options.hasOneSession === true;
  }

  get knownKind(): StdioKind {
    const isModern = this.#options.era === 'modern' || this.#discovered !== null;
    return isModern ? 'modern-stdio' : 'stdio';
  }

  get greetedKind(): StdioKind | null {
    const isGreeted = this.#discovered !== null || this.#revision !== null;
    return isGreeted ? this.knownKind : null;
  }

  /** What a modern server said of itself last, to the gateway; `null` if nothing. */
  get discovered(): JsonObject | null {
    return this.#discovered?.['supportedVersions'] === undefined ? null : this.#discovered;
  }

  /** Notes that the server is modern, and what it says of itself; `null` if it is no longer. */
  noteDiscovered(result: JsonObject | null): void {
    if (result !== null && this.#discovered === null) {
      const cause = this.#options.era === 'modern' ? 'configured' : 'only_modern';
      this.#options.log?.event('upstream.detected', { kind: 'modern-stdio', cause });
    }
    const wasModern = this.#discovered !== null;
    this.#discovered = result;
    if (wasModern && result === null) for (const tell of [...this.legacyAgain]) tell();
  }

  /**
   * Starts a process and asks it what the server speaks now, which can have been replaced by one of the other era: a process has
   * refused `initialize`, or has not said that it is modern. Not again a moment later. Never rejects.
   */
  async askEraAgain(): Promise<void> {
    if (this.#options.era !== 'auto') return;
    const isRecent = this.#clock.elapsed() - this.#lastDoubtMs < MIN_DOUBT_GAP_MS;
    if (this.#doubting === null && !isRecent) {
      this.#lastDoubtMs = this.#clock.elapsed();
      const asked = this.#greetAs(() => this.#greetLegacy()).then(
        () => this.noteDiscovered(null),
        () => {},
      );
      this.#doubting = asked.then(() => void (this.#doubting = null));
    }
    await this.#doubting;
  }

  /** Over stdio a server speaks to the gateway only, and in one way. */
  askAgain(): void {}

  doubt(): boolean {
    return false;
  }

  async detect(): Promise<StdioKind> {
    return this.knownKind;
  }

  /** Starts a process, and ends it when it has replied. Some take seconds to end: nothing waits for that here. */
  async greet(): Promise<StdioKind> {
    const isModern = this.knownKind === 'modern-stdio';
    try {
      await this.#greetAs(() => (isModern ? this.#greetModern() : this.#greetLegacy()));
    } catch (error) {
      if (asUpstreamFailure(error, false).code !== 'server_is_modern') throw error;
    }
    return this.knownKind;
  }

  async #greetAs(greet: () => Promise<{ close(): Promise<unknown> }>): Promise<void> {
    const leave = this.hasOneSession ? await this.#options.reserveOnlySession?.() : undefined;
    try {
      const greeted = await greet();
      const closed = greeted.close().then(
        () => {},
        () => {},
      );
      const ended: Promise<void> = closed.finally(() => {
        leave?.();
        if (this.#greeted === ended) this.#greeted = null;
      });
      this.#greeted = ended;
    } catch (error) {
      leave?.();
      throw error;
    }
  }

  async #greetLegacy(): Promise<Session> {
    const asked = { profile: EMPTY_PROFILE, clientInfo: null, headers: {} };
    const session = await this.#open(asked);
    const { initializeResult: initialized, canPush: hasStream } = session;
    // No credentials of callers reach a process.
    this.#lastGreeting = { headers: OWN_HEADERS, initialized, hasStream };
    this.#options.onGreeted?.(this.#lastGreeting);
    this.#options.log?.event('upstream.detected', { kind: 'stdio', cause: 'configured' });
    return session;
  }

  async #greetModern(): Promise<ModernProcess> {
    const server = this.openModern();
    await server.ready();
    return server;
  }

  /** Returns a modern server whose process takes no permit. Nothing is started yet. */
  openModern(): ModernProcess {
    const { gatewayInfo, headersTimeoutMs } = this.#options;
    return new ModernProcess({
      clock: this.#clock,
      idleTimeoutMs: headersTimeoutMs,
      startTimeoutMs: headersTimeoutMs,
      gatewayInfo: { ...gatewayInfo },
      open: async (listener) => {
        const channel = await this.openChannel(randomId().slice(0, 8), '', listener);
        return withoutPermit(channel);
      },
      onDiscovered: (result) => this.noteDiscovered(result),
      onSilent: () => inBackground(this.askEraAgain()),
      onEmpty: () => {},
    });
  }

  /** Sends a request of the gateway itself to a modern server. @throws UpstreamFailure if there is no reply in time */
  ask(server: ModernServer, method: string, params: JsonObject): Promise<JsonRpcReply> {
    const { gatewayInfo, headersTimeoutMs: timeoutMs } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<JsonRpcReply>();
    const _meta = ownMeta({ ...gatewayInfo });
    server.send(
      { method, params: { ...params, _meta }, headers: {}, timeoutMs },
      { notified: () => {}, replied: resolve, failed: reject },
    );
    return promise;
  }

  /** Asks a process that refuses `initialize` whether it speaks 2026-07-28 ("Backward Compatibility" of stdio). */
  async #explain(refusal: UpstreamFailure, session: Session): Promise<UpstreamFailure> {
    const { era, gatewayInfo } = this.#options;
    if (era !== 'auto') return refusal;
    const _meta = ownMeta({ ...gatewayInfo });
    const reply = await session.request('server/discover', { _meta }, {}).catch(() => null);
    if (reply === null || modernCapabilities(reply) === null) return refusal;
    // An error of the modern protocol proves it as well.
    this.noteDiscovered('result' in reply ? reply.result : {});
    const problem = 'it refuses a legacy handshake, and speaks 2026-07-28';
    return new UpstreamFailure('server_is_modern', problem, { mayHaveActed: false });
  }

  lastGreeting(): Promise<Greeting | null> {
    return Promise.resolve(this.#lastGreeting);
  }

  async openSession(request: SessionRequest): Promise<Session> {
    const session = await this.#open(request);
    logSession(session, this.#options.log, this.#clock);
    return session;
  }

  resumeSession(): Promise<Session> {
    const problem = 'a session over stdio ends with its process';
    return Promise.reject(new UpstreamFailure('session_gone', problem, { mayHaveActed: true }));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#processes].map((each) => each.stop()));
  }

  async #open(request: SessionRequest): Promise<Session> {
    const { gatewayInfo, headersTimeoutMs, pingIntervalMs } = this.#options;
    const { rootsHabit, onChange, log } = this.#options;
    const owner = request.principalKey ?? '';
    await this.#admit(owner);
    const server = this.#nextProcess(randomId().slice(0, 8), owner);
    const options: SessionOptions = {
      profile: request.profile,
      clientInfo: request.clientInfo ?? { ...gatewayInfo },
      headers: request.headers,
      knownRevision: this.#revision,
      requestTimeoutMs: headersTimeoutMs,
      pingIntervalMs,
      statefulWithoutSessionId: true,
      standaloneStream: true,
      detector: this.detector,
      askingStyle: this.#asking,
      rootsHabit,
      onChange,
      log,
      onRefused: (failure, refused) => this.#explain(failure, refused),
    };
    const connect = (listener: TransportListener) => {
      const transport: StdioTransport = new StdioTransport(listener, {
        ...server.options(() => transport),
        maxAgeMs: MAX_PROCESS_AGE_MS,
      });
      this.#processes.add(transport);
      return transport;
    };
    try {
      const session = await Session.open(connect, options, this.#clock);
      this.#revision = session.initializeResult.protocolVersion;
      return session;
    } catch (error) {
      const { code, message, details } = asUpstreamFailure(error, false);
      if (code !== 'upstream_timeout') throw error;
      // The process runs, and may be no MCP server.
      const wrote =
        server.output.sample === ''
          ? ' (it wrote nothing)'
          : ` (it wrote something that is not a message${server.output.sample})`;
      const problem = `${message}${wrote}${this.#networkHint}${server.output.lastWords}`;
      throw new UpstreamFailure(code, problem, details);
    }
  }

  /**
   * Starts a process whose messages are not translated.
   * @param name of its session in the log
   * @param owner whom its crashes delay
   * @throws UpstreamFailure if it must not start yet, or too many run
   */
  async openChannel(name: string, owner: string, listener: ChannelListener): Promise<Channel> {
    await this.#admit(owner);
    const running: RunningProcess = { stop: () => channel.end(true) };
    const channel = new ProcessChannel(
      listener,
      this.#nextProcess(name, owner).options(() => running),
    );
    this.#processes.add(running);
    channel.start();
    return channel;
  }

  /** @throws UpstreamFailure if no process of this owner may start now */
  async #admit(owner: string): Promise<void> {
    const { maxProcesses } = this.#options;
    this.#delays.check(owner);
    if (this.#processes.size >= maxProcesses) await this.#greeted;
    if (this.#processes.size < maxProcesses) return;
    const problem = `sessions.max (${maxProcesses}) is reached`;
    throw new UpstreamFailure('upstream_busy', problem, { mayHaveActed: false });
  }

  /** Says which variables a process got that ended before it said anything: mostly it misses one. */
  #variablesHint(lastWords: string): string {
    return variablesHint(process.env, this.#env, lastWords);
  }

  /** Keeps what the next process writes. Its options are for the one that the function returns. @param name in the log */
  #nextProcess(name: string, owner: string) {
    const { process, headersTimeoutMs, maxEventBytes, holdBytes, log } = this.#options;
    const output = new ProcessOutput(process.env, this.#clock, (stream, line, dropped) =>
      log?.event('process.wrote', { session: name, stream, line, ...(dropped > 0 && { dropped }) }),
    );
    const options = (running: () => RunningProcess): ProcessChannelOptions => {
      const startedAtMs = this.#clock.elapsed();
      return {
        ...process,
        env: this.#env,
        maxLineBytes: maxEventBytes,
        held: holdBytes?.() ?? UNBOUNDED,
        maxUnreadMs: headersTimeoutMs,
        output,
        clock: this.#clock,
        onStart: (pid) => log?.event('process.started', { session: name, pid }),
        onEnd: ({ problem, isCrash, hasSpoken }) => {
          this.#processes.delete(running());
          const livedMs = this.#clock.elapsed() - startedAtMs;
          this.#delays.ended(owner, { problem, isCrash, hasSpoken, livedMs });
          const ended = isCrash ? 'process.crashed' : 'process.ended';
          const hint = isCrash && !hasSpoken ? this.#variablesHint(output.lastWords) : '';
          const { dropped } = output;
          const fields = { session: name, problem: `${problem}${hint}` };
          log?.event(ended, { ...fields, ...(dropped > 0 && { dropped }) });
        },
      };
    };
    return { output, options };
  }
}
