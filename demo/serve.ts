/** The demo that stays: the gateway on a port of the user's choice, and curl lines that work against it. */
import type { JsonObject } from '../src/protocol/json.ts';
import { paint } from './paint.ts';
import { setStage } from './stage.ts';

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'curl', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
};
const MAX_PORT = 65_535;
const TOOL = 'trigger-elicitation-request';

/** What the gateway says of itself just after it listens. None of it is about the calls of the user. */
const AT_START: ReadonlySet<unknown> = new Set(['gateway.homes', 'tasks.in_memory']);

/**
 * Serves until Ctrl-C, or until one of the two processes ends.
 * @returns the exit code
 * @throws Error if the port is none, or with what the gateway said, if it cannot start (the port is in use, say)
 */
export async function serve(port: string, write: (text: string) => void): Promise<number> {
  if (!/^\d+$/.test(port) || Number(port) > MAX_PORT) {
    throw new Error(`--port N needs a number up to ${MAX_PORT}, got ${JSON.stringify(port)}`);
  }
  // The listeners stay: a Ctrl-C can reach us from the terminal and again through npm.
  const signal = new Promise<null>((resolve) => {
    const stop = () => resolve(null);
    process.on('SIGINT', stop).on('SIGTERM', stop);
  });
  let started = false;
  const stage = await setStage({
    listen: `127.0.0.1:${port}`,
    admin: '127.0.0.1:0',
    onLog: (line) => {
      if (started && !AT_START.has(line['event'])) write(shownLine(line));
    },
  }).catch((error: unknown) => {
    throw namingPort(error);
  });
  write(`
${paint('bold', stage.gatewayUrl)} -> ${stage.serverUrl}
metrics: ${stage.adminUrl ?? ''}/metrics

${curlLines(stage.gatewayUrl)}
Stop with Ctrl-C. What the gateway logs from now on:

`);
  started = true;
  const end = await Promise.race([signal, stage.ended.then(() => 'The demo lost a process.')]);
  await stage.stop();
  if (end !== null) throw new Error(end);
  return 0;
}

/** A shell script in four steps; each can also be pasted by itself, in this order. */
function curlLines(url: string): string {
  const call = { name: TOOL, arguments: {}, _meta: META };
  const answer = { action: 'accept', content: { name: 'Ada Lovelace', check: true } };
  const retry = { ...call, inputResponses: { 'elicitation-1': answer }, requestState: 'STATE' };
  return `${paint('dim', '# 1. What the gateway speaks')}
${curl(url, 1, 'server/discover', { _meta: META })}; echo

${paint('dim', '# 2. A call: the result is "input_required", with the question and a requestState')}
REPLY=$(${curl(url, 2, 'tools/call', call)})
echo "$REPLY"

${paint('dim', '# 3. The requestState of that result (or paste it: STATE=...)')}
STATE=$(echo "$REPLY" | sed -n 's/.*"requestState":"\\([^"]*\\)".*/\\1/p')

${paint('dim', '# 4. The same call again, with the answer to the question and the requestState as it came')}
${curl(url, 3, 'tools/call', retry).replace('"STATE"', `"'"$STATE"'"`)}; echo
`;
}

function curl(url: string, id: number, method: string, params: object): string {
  const name = method === 'tools/call' ? ` -H 'Mcp-Name: ${TOOL}'` : '';
  return `curl -s ${url} \\
  -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\
  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: ${method}'${name} \\
  -d '${JSON.stringify({ jsonrpc: '2.0', id, method, params })}'`;
}

/** Names the flag of the demo in what the gateway says about its own. */
function namingPort(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return new Error(error.message.replaceAll('--listen HOST:PORT', '--port N'), { cause: error });
}

/** One line of the gateway's log: the event, and its fields. */
function shownLine({
  event,
  time: _time,
  level: _level,
  msg: _msg,
  ...fields
}: JsonObject): string {
  if (event === undefined) return '';
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${String(value)}`);
  return paint('dim', `  ${String(event).padEnd(18)} ${shown.join(' ')}\n`);
}
