/** Where a value stands in the configuration, and whether it may be shown. */

export type FieldPath = readonly (string | number)[];

const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** Under these, values are secrets: sealing keys, headers such as `Authorization`, logins at Redis. */
const SECRET_FIELDS: readonly (readonly (string | null)[])[] = [
  ['seal', 'keys'],
  ['routes', null, 'upstream', 'headers'],
  ['redis', 'url'],
  ['redis', 'tls', 'ca'],
  ['redis', 'tls', 'cert'],
  ['redis', 'tls', 'key'],
  ['redis', 'sentinel', 'username'],
  ['redis', 'sentinel', 'password'],
];

/** In: `['routes', 0, 'path']`. Out: `routes[0].path`. */
export function formatPath(path: FieldPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!PLAIN_KEY.test(step)) text += `[${JSON.stringify(step.slice(0, 64))}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

/** True for fields whose values must appear in no message; only they may be read from other files. */
export function isSecretField(path: FieldPath): boolean {
  return SECRET_FIELDS.some(
    (field) =>
      path.length >= field.length &&
      field.every((step, index) => step === null || step === path[index]),
  );
}
