/** Checks the shape of the params of each method. */
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json/json.ts';

type Shape = Readonly<Record<string, Check>>;
type Check = (value: JsonValue | undefined) => string | null;

const string: Check = (value) => (typeof value === 'string' ? null : 'must be a string');
const optionalString: Check = (value) => (value === undefined ? null : string(value));
const object: Check = (value) => (isJsonObject(value) ? null : 'must be an object');
const optionalObject: Check = (value) => (value === undefined ? null : object(value));
const notificationFilter: Check = (value) => {
  if (!isJsonObject(value)) return 'must be an object';
  const { resourceSubscriptions: uris = [], ...rest } = value;
  const flags = ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged'];
  const wrong = flags.find((flag) => rest[flag] !== undefined && typeof rest[flag] !== 'boolean');
  if (wrong !== undefined) return `must have a boolean as ${wrong}`;
  const areStrings = Array.isArray(uris) && uris.every((uri) => typeof uri === 'string');
  return areStrings ? null : 'must have an array of strings as resourceSubscriptions';
};
const list: Shape = { cursor: optionalString };

const SHAPES: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ['tools/call', { name: string, arguments: optionalObject }],
  ['prompts/get', { name: string, arguments: optionalObject }],
  ['resources/read', { uri: string }],
  ['completion/complete', { ref: object, argument: object, context: optionalObject }],
  ['tools/list', list],
  ['prompts/list', list],
  ['resources/list', list],
  ['resources/templates/list', list],
  ['subscriptions/listen', { notifications: notificationFilter }],
]);

/**
 * Finds the first member that is wrong.
 * @returns the member and what it must be, or `null`
 */
export function paramsProblem(
  method: string,
  params: JsonObject,
  isInteractive: boolean,
): string | null {
  for (const [member, check] of Object.entries(SHAPES.get(method) ?? {})) {
    const problem = check(params[member]);
    if (problem !== null) return `params.${member} ${problem}`;
  }
  return roundProblem(params, isInteractive);
}

/** Here `null` is malformed, not absent (MRTR, "Error Handling"). */
function roundProblem(
  { inputResponses, requestState }: JsonObject,
  isInteractive: boolean,
): string | null {
  if (!isInteractive && (inputResponses !== undefined || requestState !== undefined)) {
    return 'inputResponses and requestState belong to calls that asked for input';
  }
  if (requestState !== undefined && typeof requestState !== 'string') {
    return 'params.requestState must be a string';
  }
  if (inputResponses === undefined) return null;
  if (!isJsonObject(inputResponses)) return 'params.inputResponses must be an object';
  for (const [key, value] of Object.entries(inputResponses)) {
    if (!isJsonObject(value)) return `params.inputResponses["${key}"] must be an object`;
  }
  return null;
}
