/** What the run knows of a client: where it is published, and how it starts without a person. */
import type { Package } from '../server.ts';

/** Where a client is started, and what it finds there. */
export interface Place {
  /** The folder with its installed commands. */
  readonly bin: string;
  /** Its home, which is empty before. */
  readonly home: string;
  /** The server's URL. */
  readonly url: string;
  /** The origin of a model that plays a script. */
  readonly model: string;
}

export interface Start {
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  /** What is in its home, by path. */
  readonly files?: Readonly<Record<string, string>>;
}

export interface PublishedClient {
  readonly name: string;
  /** What is not as by default, or how it is used. */
  readonly setting?: string;
  readonly package: Package;
  /** A program of this folder that uses the package, if it is not a program itself. */
  readonly program?: string;
  readonly start: (place: Place) => Start;
  /** Who answers the question, if the client can show one. */
  readonly answers?: string;
}
