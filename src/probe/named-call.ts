/** The call that the operator names on the command line. */
import { isJsonObject, parseJson, type JsonObject } from '../protocol/json.ts';

/** The call that the probe may make. */
export interface RealCall {
  readonly tool: string;
  readonly arguments: JsonObject;
}

/** Parses the name of a tool and, after the first colon, its arguments. @returns `null` if they are not a JSON object */
export function parseRealCall(text: string): RealCall | null {
  const [, tool, json = '{}'] = /^([^:]+)(?::(.*))?$/s.exec(text) ?? [];
  try {
    const args = parseJson(json);
    return tool !== undefined && isJsonObject(args) ? { tool, arguments: args } : null;
  } catch {
    return null;
  }
}
