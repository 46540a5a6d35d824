/** The forms in which the gateway is started, and a program of its libraries alone. */
import { fileURLToPath } from 'node:url';
import { bundle, bundleOwn, copyCommand, writeProgram } from '../../scripts/bundle.ts';
import { freePort } from '../../test/fixtures/processes.ts';
import { Child } from '../processes/child.ts';
import {
  asUsers,
  CHECKOUT,
  PROGRAM,
  startGateway,
  type Launch,
} from '../processes/gateway-process.ts';
import { imageRun } from '../processes/image.ts';
import { answers } from '../processes/listening.ts';

/** A process that takes calls at `/mcp`. */
export interface Started {
  readonly child: Child;
  readonly origin: string;
}

/** Starts a process in front of the upstream at this origin; resolves when it is ready. */
export type Start = (upstream: string) => Promise<Started>;

export interface Forms {
  /** As the package has it. */
  readonly package: Start;
  /** As the image has it: with its libraries in the bundle. */
  readonly image: Start;
  /** A bundle of the libraries that the gateway loads at its start, run as the image is. */
  readonly bare: Start;
  readonly earlier: Start | null;
}

const BARE_FORM = fileURLToPath(new URL('./bare-form-process.ts', import.meta.url));

/**
 * Makes the programs of this version.
 * @param folder where configurations are written
 * @param earlier the folder of another version of the gateway, or `null`
 */
export async function makeForms(folder: string, earlier: URL | null): Promise<Forms> {
  const gateway = (launch: Launch, checkout = CHECKOUT): Start => {
    return (upstream) => startGateway({ upstreamUrl: `${upstream}/mcp`, folder, launch, checkout });
  };
  return {
    package: gateway(await packaged()),
    image: gateway(await asImage()),
    bare: await bareForm(),
    earlier: earlier === null ? null : gateway(asUsers, earlier),
  };
}

/** Makes the program of the package, where it finds the libraries of this checkout. */
async function packaged(): Promise<Launch> {
  const folder = new URL('results/package/', CHECKOUT);
  await bundleOwn(fileURLToPath(folder));
  await copyCommand(fileURLToPath(folder));
  return (_program, args) => asUsers(new URL(PROGRAM, folder), args);
}

async function asImage(): Promise<Launch> {
  const folder = new URL('results/image/', CHECKOUT);
  await bundle(fileURLToPath(folder));
  return inImage('the gateway', folder);
}

async function bareForm(): Promise<Start> {
  const folder = new URL('results/bare-form/', CHECKOUT);
  await writeProgram(fileURLToPath(folder), BARE_FORM);
  await copyCommand(fileURLToPath(folder));
  const launch = inImage('the bare form', folder);
  return async (upstream) => {
    const [listen, admin] = [await freePort(), await freePort()];
    const settings = JSON.stringify({ listen, admin, upstream });
    const child = launch(folder, ['--settings', settings]);
    await answers(`http://127.0.0.1:${admin}/readyz`, child);
    return { child, origin: `http://127.0.0.1:${listen}` };
  };
}

/** Runs the program of a folder with the flags and variables of the image. */
function inImage(name: string, folder: URL): Launch {
  const { flags, env } = imageRun();
  const program = fileURLToPath(new URL(PROGRAM, folder));
  return (_program, args) =>
    Child.program(name, process.execPath, [...flags, program, ...args], env);
}
