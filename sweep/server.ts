/** What the sweep knows of a published server: where it comes from, how it starts, and what to ask of it. */

/** Where a server is published. Versions are exact, so that a table can be repeated. */
export type Package =
  | {
      readonly registry: 'npm' | 'pypi';
      readonly name: string;
      readonly version: string;
      readonly with?: readonly string[];
    }
  /** `name` is the path of the command inside its module. */
  | { readonly registry: 'go'; readonly name: string; readonly version: string };

export type Language = 'TypeScript' | 'Python' | 'Go' | 'Rust';

/** How clients reach it. In `command` and `env`, `{bin}` is the folder of the installed commands, `{port}` a free port of
 * loopback, and `{dir}` a folder with a few files that is made for the run. */
export interface Start {
  readonly transport: 'stdio' | 'streamable-http' | 'http-sse';
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  /** Path of the endpoint; not for stdio. */
  readonly path?: string;
}

export interface Call {
  readonly tool: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** Matches what differs from run to run, in the JSON of the result. */
  readonly varies?: RegExp;
}

export interface PublishedServer {
  readonly name: string;
  readonly package: Package;
  readonly language: Language;
  readonly start: Start;
  /** Made in this order on one connection. */
  readonly calls: readonly Call[];
  /** What elicitation forms are filled with; fields that a form does not have are left out. */
  readonly fill?: Readonly<Record<string, unknown>>;
  /** It asks for roots when a session begins, when no call can ask a modern client. */
  readonly rootsAtStart?: boolean;
  /** Flags of the gateway beside its defaults, and why they are needed. */
  readonly flags?: { readonly args: readonly string[]; readonly why: string };
  readonly remark?: string;
}
