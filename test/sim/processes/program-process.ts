/** Runs the program given, as a real process. */
import { PROGRAMS, type ProgramName } from './programs.ts';

const [name = ''] = process.argv.slice(2);
const { stdin, stdout, stderr } = process;
PROGRAMS[name as ProgramName]({
  ...{ stdin, stdout, stderr },
  on: (signal, listener) => process.on(signal, listener),
  exit: (code) => process.exit(code),
});
