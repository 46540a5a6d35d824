/** What the tools of a simulated server do. */

/** What a tool can do, for the call that it works for. */
export interface Work {
  /** Asks on the stream of the call, or beside it. @returns what the client gave */
  ask(where: 'own' | 'beside'): Promise<string>;
  /** Asks, takes the question back, and goes on. */
  askInVain(): Promise<void>;
  /** Works for as long as the history says. */
  work(): Promise<void>;
  /** Does a moment's work. */
  pause(): Promise<void>;
  /** Sends notifications about progress: more than fits in the buffers on the way. */
  report(): Promise<void>;
  /** Does what must not happen twice. */
  act(): void;
}

const RUNS = {
  /** Asks two questions on the stream of its call, with work between them. */
  twice: async (work) => {
    const first = await work.ask('own');
    await work.work();
    work.act();
    return [first, await work.ask('own')];
  },
  /** Asks a question on the stream of its session. */
  beside: async (work) => {
    await work.pause();
    const answer = await work.ask('beside');
    work.act();
    return [answer];
  },
  plain: async (work) => {
    await work.pause();
    work.act();
    return [];
  },
  /** Works for a while, and asks nothing. */
  slow: async (work) => {
    await work.work();
    work.act();
    return [];
  },
  /** Asks three questions at once. */
  together: async (work) => {
    await work.pause();
    const answers = await Promise.all([work.ask('own'), work.ask('own'), work.ask('own')]);
    work.act();
    return answers;
  },
  /** Asks three questions in turn, at once after each answer. */
  turns: async (work) => {
    const answers = [await work.ask('own'), await work.ask('own')];
    work.act();
    return [...answers, await work.ask('own')];
  },
  /** Asks on the stream of its call, and then beside it. */
  mixed: async (work) => {
    const first = await work.ask('own');
    await work.pause();
    const second = await work.ask('beside');
    work.act();
    return [first, second];
  },
  /** Takes a question back, and asks another one. */
  withdraws: async (work) => {
    await work.askInVain();
    const answer = await work.ask('own');
    work.act();
    return [answer];
  },
  /** Asks, works, and ends without the answer. */
  abandons: async (work) => {
    void work.ask('own');
    await work.work();
    work.act();
    return [];
  },
  /** Says much about its progress, asks, and says much again. */
  reports: async (work) => {
    await work.report();
    const answer = await work.ask('own');
    work.act();
    await work.report();
    return [answer];
  },
} satisfies Record<string, (work: Work) => Promise<readonly string[]>>;

export type Tool = keyof typeof RUNS;

export const TOOLS = Object.keys(RUNS) as [Tool, ...Tool[]];

export function runTool(tool: Tool, work: Work): Promise<readonly string[]> {
  return RUNS[tool](work);
}

export function isTool(name: string): name is Tool {
  return Object.hasOwn(RUNS, name);
}

/** Whether a tool asks nothing. */
export function asksNothing(tool: Tool): boolean {
  return tool === 'plain' || tool === 'slow';
}

/** Whether all that a tool asks comes on the stream of its call. */
export function asksOnItsStream(tool: Tool): boolean {
  return tool !== 'beside' && tool !== 'mixed';
}
