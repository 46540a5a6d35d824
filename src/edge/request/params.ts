/** What the params of each method must look like before anything is done with them. */
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json/json.ts';

type Shape = Readonly<Record<string, Check>>;
type Check = (value: JsonValue | undefined) => string | null;

const text: Check = (value) => (typeof value === 'string' ? null : 'must be a string');
const optionalText: Check = (value) => (value === undefined ? null : text(value));
const object: Check = (value) => (isJsonObject(value) ? null : 'must be an object');
const optionalObject: Check = (value) => (value === undefined ? null : object(value));
const notificationFilter: Check = (value) => {
  if (!isJsonObject(value)) return 'must be an object';
  const { resourceSubscriptions: uris = [], ...rest } = value;
  const flags = ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged'];
  const wrong = flags.find((flag) => rest[flag] !== undefined && typeof rest[flag] !== 'boolean');
  if (wrong !== undefined) return `must have a boolean as ${wrong}`;
  const texts = Array.isArray(uris) && uris.every((uri) => typeof uri === 'string');
  return texts ? null : 'must have an array of strings as resourceSubscriptions';
};
const listed: Shape = { cursor: optionalText };

const SHAPES: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ['tools/call', { name: text, arguments: optionalObject }],
  ['prompts/get', { name: text, arguments: optionalObject }],
  ['resources/read', { uri: text }],
  ['completion/complete', { ref: object, argument: object, context: optionalObject }],
  ['tools/list', listed],
  ['prompts/list', listed],
  ['resources/list', listed],
  ['resources/templates/list', listed],
  ['subscriptions/listen', { notifications: notificationFilter }],
]);

/** The first member that is wrong and what it must be, or `null`. */
export function paramsProblem(
  method: string,
  params: JsonObject,
  interactive: boolean,
): string | null {
  for (const [member, check] of Object.entries(SHAPES.get(method) ?? {})) {
    const problem = check(params[member]);
    if (problem !== null) return `params.${member} ${problem}`;
  }
  return roundProblem(params, interactive);
}

/** `null` is malformed, not absent (MRTR, "Error Handling"). */
function roundProblem(
  { inputResponses, requestState }: JsonObject,
  interactive: boolean,
): string | null {
  if (!interactive && (inputResponses !== undefined || requestState !== undefined)) {
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
