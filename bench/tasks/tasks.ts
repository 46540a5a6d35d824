/** Many tool calls at once that have become tasks: what each takes of the gateway, and how often they can be polled. */
import { acceptedIn, markOf, modernCall, taskRequest, type HttpCall } from '../clients/messages.ts';
import type { Child } from '../processes/child.ts';
import { Connection } from '../clients/load.ts';
import { askForOpenFiles } from '../machine/open-files.ts';
import { filesFor } from '../machine/room.ts';
import { holdings } from '../parked/parked.ts';
import { startGateway } from '../processes/gateway-process.ts';
import type { TasksOptions } from '../sizes.ts';

/** What calls that wait for an answer take, and how often their clients can look at them. */
export interface Waiting {
  /** How many waited at once. */
  readonly count: number;
  readonly createdPerSecond: number;
  /** For one, its parked call included. */
  readonly rssBytesEach: number;
  readonly heapUsedBytesEach: number;
  readonly looksPerSecond: number;
}

export interface TasksResult {
  readonly tasks: Waiting;
  /** The same calls without tasks, in another process: their clients look at them with a retry that answers nothing. */
  readonly parked: Waiting;
  /** Tasks that were answered afterwards; each was checked. */
  readonly completed: number;
}

interface AskingTask {
  readonly callNumber: number;
  /** The id of the task, or the `requestState` of a call that is none. */
  readonly taskId: string;
  readonly connection: Connection;
}

/** How the client of a call that waits looks at it. */
type Look = (id: number, asking: AskingTask) => HttpCall;

const CONNECTIONS = 32;
const MOST_COMPLETED = 100;
const POLL_EVERY_MS = 20;

const POLL: Look = (id, task) => taskRequest('tasks/get', id, task);
const RETRY: Look = (_id, { callNumber, taskId: requestState }) =>
  modernCall('ask', callNumber, { requestState });

/** @throws Error if a call does not become a task, or a task does not come to its own result */
export async function measureTasks(
  upstream: string,
  folder: string,
  options: TasksOptions,
  done: (share: number) => void,
): Promise<TasksResult> {
  const { count, warmUp } = options;
  askForOpenFiles(filesFor(count + warmUp));
  const upstreamUrl = `${upstream}/mcp`;
  const measure = async (promotes: boolean, from: number) => {
    const { child, origin } = await startGateway({
      ...{ upstreamUrl, folder },
      ...(promotes ? { promotes: 'interactive' } : {}),
    });
    const first = (index: number) => index * (count + warmUp);
    const call = (id: number) => (promotes ? taskRequest('tools/call', id) : modernCall('ask', id));
    const connections = Array.from(
      { length: CONNECTIONS },
      (_, index) => new Connection(origin, '/mcp', (id) => call(first(index) + id)),
    );
    try {
      const look = promotes ? POLL : RETRY;
      const share = (part: number) => done(from + part / 2);
      const { waiting, calls } = await measureWaiting(child, connections, look, options, share);
      return { waiting, completed: promotes ? await complete(calls) : 0 };
    } finally {
      await Promise.all(connections.map((connection) => connection.close()));
      await child.stop();
    }
  };
  const { waiting: parked } = await measure(false, 0);
  const { waiting: tasks, completed } = await measure(true, 0.5);
  return { tasks, parked, completed };
}

async function measureWaiting(
  child: Child,
  connections: readonly Connection[],
  look: Look,
  { count, warmUp, pollMs }: TasksOptions,
  done: (share: number) => void,
): Promise<{ readonly waiting: Waiting; readonly calls: readonly AskingTask[] }> {
  await lookAt(await create(connections, warmUp), look, pollMs / 4);
  const before = await holdings(child);
  const startedAt = performance.now();
  const calls = await create(connections, count, (share) => done(share * 0.8));
  const createdPerSecond = (count * 1_000) / (performance.now() - startedAt);
  const after = await holdings(child);
  const waiting = {
    ...{ count, createdPerSecond },
    rssBytesEach: (after.rssBytes - before.rssBytes) / count,
    heapUsedBytesEach: (after.heapUsedBytes - before.heapUsedBytes) / count,
    looksPerSecond: await lookAt(calls, look, pollMs),
  };
  return { waiting, calls };
}

async function create(
  connections: readonly Connection[],
  count: number,
  done: (share: number) => void = () => {},
): Promise<AskingTask[]> {
  const tasks: AskingTask[] = [];
  let begun = 0;
  const loop = async (connection: Connection) => {
    while (begun < count) {
      begun += 1;
      const { text } = await connection.next();
      const { id, result } = JSON.parse(text) as {
        id: number;
        result?: { taskId?: string; requestState?: string };
      };
      const taskId = result?.taskId ?? result?.requestState;
      if (taskId === undefined) throw new Error(`it does not wait: ${text.slice(0, 200)}`);
      tasks.push({ callNumber: id, taskId, connection });
      done(tasks.length / count);
    }
  };
  await Promise.all(connections.map(loop));
  return tasks;
}

/** Looks at the calls in turn for so long, over all connections. @returns looks a second */
async function lookAt(
  calls: readonly AskingTask[],
  look: Look,
  durationMs: number,
): Promise<number> {
  const startedAt = performance.now();
  const connections = [...new Set(calls.map(({ connection }) => connection))];
  let looks = 0;
  const loop = async (connection: Connection) => {
    while (performance.now() - startedAt < durationMs) {
      const one = calls[looks % calls.length];
      looks += 1;
      if (one === undefined) return;
      const text = await connection.send(look(looks, one));
      if (!text.includes('"inputRequests"')) throw new Error(`not asking: ${text.slice(0, 200)}`);
    }
  };
  await Promise.all(connections.map(loop));
  return (looks * 1_000) / (performance.now() - startedAt);
}

/** Answers some, evenly chosen. @returns how many */
async function complete(tasks: readonly AskingTask[]): Promise<number> {
  const step = Math.ceil(tasks.length / MOST_COMPLETED);
  const chosen = tasks.filter((_task, index) => index % step === 0);
  for (const task of chosen) {
    const connection = task.connection.fresh();
    try {
      const asked = await connection.send(taskRequest('tasks/get', 1, task));
      const { result } = JSON.parse(asked) as { result: { inputRequests: object } };
      const keys = Object.keys(result.inputRequests);
      const inputResponses = Object.fromEntries(
        keys.map((key) => [key, acceptedIn(task.callNumber)]),
      );
      await connection.send(taskRequest('tasks/update', 2, task, { inputResponses }));
      await completed(connection, task);
    } finally {
      await connection.close();
    }
  }
  return chosen.length;
}

async function completed(connection: Connection, task: AskingTask): Promise<void> {
  for (let polls = 0; polls < 100; polls += 1) {
    const text = await connection.send(taskRequest('tasks/get', 3, task));
    if (text.includes('"status":"completed"') && text.includes(markOf(task.callNumber))) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_EVERY_MS));
  }
  throw new Error(`task ${task.taskId} did not complete`);
}
