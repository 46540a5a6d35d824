/** Plays what becomes of processes that are killed, frozen or cut off, and prints what each of them saw, by title. */
import './engine/pins.ts';
import net, { type AddressInfo, type Socket } from 'node:net';
import { Simulation, simulation } from './engine/simulation.ts';
import { network } from './network/tcp-model.ts';
import { forks } from './processes/fork-model.ts';

type Note = (...seen: unknown[]) => void;

const PLAYS: Record<string, (note: Note) => Promise<void>> = {
  async 'a killed process does nothing more'(note) {
    simulation().as('A', () => {
      setTimeout(() => note('timer'), 10);
      setInterval(() => note('interval'), 10);
      void simulation()
        .sleep(10)
        .then(() => note('clock'));
    });
    simulation().kill('A');
    await simulation().sleep(100);
  },

  async 'whoever talks with a killed process sees the end'(note) {
    const { client } = await pair(note);
    simulation().kill('A');
    await simulation().sleep(100);
    note('client is destroyed:', client.destroyed);
  },

  async 'what falls due in a frozen process waits, in its order'(note) {
    simulation().as('A', () => {
      setTimeout(() => note('20 ms'), 20);
      setTimeout(() => note('10 ms'), 10);
      void simulation()
        .sleep(15)
        .then(() => note('15 ms'));
    });
    simulation().freeze('A');
    await simulation().sleep(100);
    note('goes on');
    simulation().thaw('A');
    await simulation().sleep(100);
  },

  async 'a timer that is cancelled when a process goes on does not fire'(note) {
    simulation().as('A', () => {
      const second = setTimeout(() => note('cancelled'), 20);
      const third = setTimeout(() => note('refreshed'), 20);
      setTimeout(() => {
        clearTimeout(second);
        third.refresh();
        note('first');
      }, 10);
    });
    simulation().freeze('A');
    await simulation().sleep(100);
    simulation().thaw('A');
    await simulation().sleep(10);
    note('later');
    await simulation().sleep(100);
  },

  async 'an interval fires once when a process goes on'(note) {
    const timer = simulation().as('A', () => setInterval(() => note('interval'), 10));
    simulation().freeze('A');
    await simulation().sleep(95);
    simulation().thaw('A');
    await simulation().sleep(1);
    clearInterval(timer);
  },

  async 'timers of others fire while a process is frozen'(note) {
    simulation().as('A', () => setTimeout(() => note('A'), 10));
    simulation().as('B', () => setTimeout(() => note('B'), 10));
    simulation().freeze('A');
    await simulation().sleep(100);
  },

  async 'a frozen process takes connections, and serves them when it goes on'(note) {
    const server = simulation().as('A', () => net.createServer((socket) => socket.end('served')));
    await new Promise<void>((resolve) => simulation().as('A', () => server.listen(99, resolve)));
    simulation().freeze('A');
    simulation().as('B', () => {
      const client = net.connect(99, '127.0.0.1', () => note('connected'));
      client.on('data', (bytes) => note(String(bytes)));
    });
    await simulation().sleep(100);
    note('goes on');
    simulation().thaw('A');
    await simulation().sleep(100);
  },

  async 'what is sent on a way that is cut arrives when it is whole, in its order'(note) {
    const { client, server } = await pair(note);
    let text = '';
    server.on('data', (bytes) => (text += String(bytes)));
    network().links.cut('B', 'A');
    for (const word of ['one ', 'two ', 'three']) client.write(word);
    await simulation().sleep(1_000);
    note('cut:', text);
    network().links.mend('B', 'A');
    client.write(' four');
    await simulation().sleep(1_000);
    note('whole:', text);
  },

  async 'a connect to a place that is cut off waits until the way is whole'(note) {
    await listenAs('A', 99);
    network().links.cut('B', 'A');
    simulation().as('B', () => net.connect(99, '127.0.0.1', () => note('connected')));
    await simulation().sleep(1_000);
    note('mended');
    network().links.mend('B', 'A');
    await simulation().sleep(1_000);
  },

  async 'a process that vanishes tells nobody, until the way is whole'(note) {
    await pair(note);
    network().links.cut('A', 'B');
    simulation().kill('A');
    await simulation().sleep(1_000);
    note('mended');
    network().links.mendAll();
    await simulation().sleep(1_000);
  },

  async 'a clock that steps is ahead for its process only'(note) {
    const wall = () => new Date().toISOString();
    simulation().setClockAhead('A', 60_000);
    note(simulation().as('A', wall), simulation().as('B', wall));
  },

  async 'a forked process has the clock of the process that forks it'(note) {
    simulation().setClockAhead('A', 60_000);
    forks().program = () => note(new Date().toISOString().slice(0, 'YYYY-MM-DDTHH:MM'.length));
    simulation().as('A', () => forks().fork([]));
    await simulation().sleep(100);
  },

  async 'what nobody catches is a crash of its process'(note) {
    simulation().as('A', () => void Promise.reject(new Error('nobody caught this')));
    await simulation().sleep(1);
    note(simulation().crashes.map((crash) => crash.split('\n')[0]));
  },

  async 'handles and timers are counted by their process'(note) {
    await pair(note);
    simulation().as('A', () => setTimeout(() => {}, 50));
    note(network().handlesOf('A'), network().handlesOf('B'), simulation().timersOf('A'));
  },
};

async function listenAs(owner: string, port: number): Promise<void> {
  const server = simulation().as(owner, () => net.createServer());
  await new Promise<void>((resolve) => simulation().as(owner, () => server.listen(port, resolve)));
}

/** A connection from B to A, which notes what B sees. */
async function pair(note: Note): Promise<{ client: Socket; server: Socket }> {
  const server = simulation().as('A', () => net.createServer());
  await new Promise<void>((resolve) => simulation().as('A', () => server.listen(0, resolve)));
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const { port } = server.address() as AddressInfo;
  const client = simulation().as('B', () => net.connect(port, '127.0.0.1'));
  client.on('end', () => note('client sees the end'));
  client.on('error', (error: NodeJS.ErrnoException) => note('client sees', error.code));
  client.resume();
  return { client, server: await accepted };
}

setImmediate(() => {
  const seen: Record<string, string[]> = {};
  for (const [title, play] of Object.entries(PLAYS)) {
    const lines: string[] = (seen[title] = []);
    const note: Note = (...words) => lines.push(words.join(' '));
    const first = new Simulation(title, { isCalm: true });
    first.run(() => play(note));
    // What a simulation leaves must not reach the next one.
    const count = lines.length;
    new Simulation('next').run(() => simulation().sleep(10_000));
    if (lines.length > count) lines.push('reaches the next simulation');
  }
  process.stdout.write(JSON.stringify(seen), () => process.exit());
});
