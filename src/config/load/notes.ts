/** What a valid configuration says that the operator has to make true elsewhere. */
import type { Config, RouteConfig } from '../schema.ts';

const CREDENTIAL_NAME = /key|token|auth|secret|session/;

/** Returns one line for each note. */
export function notesOn({ routes, identity: { credentialHeaders } }: Config): string[] {
  return routes.flatMap((route, index) =>
    notesOnRoute(route, credentialHeaders).map((note) => `routes[${index}].${note}`),
  );
}

function notesOnRoute(
  { publicUrl, upstream: { forwardHeaders } }: RouteConfig,
  credentialHeaders: readonly string[],
): string[] {
  const untold = forwardHeaders.filter(
    (name) => CREDENTIAL_NAME.test(name) && !credentialHeaders.includes(name),
  );
  return [
    ...(publicUrl === null
      ? []
      : [
          `publicUrl: clients get tokens for ${publicUrl.href}; the server must accept this audience`,
        ]),
    ...untold.map(
      (name) =>
        `upstream.forwardHeaders: if ${name} tells users apart, name it in identity.credentialHeaders, too`,
    ),
  ];
}
