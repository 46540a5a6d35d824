/** The wire as a person reads it: who says what to whom, in the words of the protocol. */
import {
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../src/protocol/json.ts';
import { paint } from './paint.ts';
import type { Wire } from './wire.ts';

const MARGIN = '  ';
const SPEAKER_WIDTH = 22;
const NAME_WIDTH = 18;
const MAX_LINES = 6;
const MAX_TEXT = 100;
const STATE_SHOWN = 16;

export class Transcript implements Wire {
  /** How often the gateway answered with a question since the last heading. */
  rounds = 0;
  readonly #write: (text: string) => void;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  heading(text: string): void {
    this.rounds = 0;
    this.#write(`\n${paint('bold', text)}\n\n`);
  }

  sent(message: JsonObject): void {
    const { method, id } = message;
    const params = objectMember(message, 'params') ?? {};
    this.#says('client ──▶ gateway', 'cyan', `${String(method)}${aside(`id ${String(id)}`)}`);
    if (typeof params['name'] === 'string') this.#member('name', quoted(params['name']));
    if (params['arguments'] !== undefined) this.#member('arguments', short(params['arguments']));
    const answers = Object.entries(objectMember(params, 'inputResponses') ?? {});
    this.#members(
      'inputResponses',
      answers.map(([key, answer]) => `${paint('yellow', key)}  ${short(answer)}`),
    );
    this.#state(params['requestState']);
  }

  received(message: JsonObject, how: { status: number; streamed: boolean; ms: number }): void {
    const body = how.streamed ? 'event stream' : 'JSON';
    const head = `${how.status}${aside(`${body}, id ${String(message['id'])}, ${Math.round(how.ms)} ms`)}`;
    this.#says('client ◀── gateway', 'magenta', head);
    const result = objectMember(message, 'result');
    if (result === undefined) return this.#member('error', paint('red', short(message['error'])));
    if (typeof result['resultType'] === 'string') this.#resultType(result['resultType']);
    const versions = result['supportedVersions'];
    if (versions !== undefined) this.#member('supportedVersions', short(versions));
    const questions = Object.entries(objectMember(result, 'inputRequests') ?? {});
    this.#members(
      'inputRequests',
      questions.flatMap(([key, asked]) => question(key, asked)),
    );
    this.#state(result['requestState']);
    const content = texts(result);
    const rest =
      content.length > MAX_LINES ? [aside(`${content.length - MAX_LINES} more lines`)] : [];
    this.#members('content', [...content.slice(0, MAX_LINES), ...rest]);
  }

  /** What the handler of the client gives back. */
  answers(who: string, answer: string): void {
    const pause = 'no request is open now; the gateway keeps the stream of the server';
    this.#write(`\n${MARGIN}${paint('dim', pause)}\n`);
    this.#says(who, 'green', answer);
    this.#write('\n');
  }

  #resultType(type: string): void {
    if (type === 'input_required') this.rounds += 1;
    this.#member('resultType', paint(type === 'input_required' ? 'yellow' : 'green', quoted(type)));
  }

  #state(state: JsonValue | undefined): void {
    if (typeof state !== 'string') return;
    const shown = quoted(`${state.slice(0, STATE_SHOWN)}…`);
    this.#member('requestState', `${shown}${aside(`${state.length} characters`)}`);
  }

  #says(speaker: string, style: 'cyan' | 'magenta' | 'green', text: string): void {
    this.#write(`${MARGIN}${paint(style, speaker.padEnd(SPEAKER_WIDTH))}${text}\n`);
  }

  #member(name: string, value: string): void {
    const indent = ' '.repeat(MARGIN.length + SPEAKER_WIDTH + 2);
    this.#write(`${indent}${paint('dim', name.padEnd(NAME_WIDTH))}${value}\n`);
  }

  #members(name: string, values: readonly string[]): void {
    for (const [index, value] of values.entries()) this.#member(index === 0 ? name : '', value);
  }
}

function question(key: string, asked: JsonValue): string[] {
  if (!isJsonObject(asked)) return [];
  const params = objectMember(asked, 'params') ?? {};
  const head = `${paint('yellow', key)}  ${String(asked['method'])}`;
  return [head, ...elicited(params), ...sampled(params)];
}

function elicited({ message, requestedSchema }: JsonObject): string[] {
  if (typeof message !== 'string') return [];
  const schema = isJsonObject(requestedSchema) ? requestedSchema : {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const fields = Object.keys(objectMember(schema, 'properties') ?? {});
  const named = fields.slice(0, 5).map((field) => (required.includes(field) ? `${field}*` : field));
  const more = fields.length > named.length ? ` and ${fields.length - named.length} more` : '';
  return [`  ${quoted(message)}`, `  ${paint('dim', 'fields')}  ${named.join(', ')}${more}`];
}

function sampled({ messages, maxTokens }: JsonObject): string[] {
  if (!Array.isArray(messages)) return [];
  const lines = messages.filter(isJsonObject).map(({ role, content }) => {
    return `  ${paint('dim', String(role))}  ${short(isJsonObject(content) ? content['text'] : content)}`;
  });
  return [...lines, `  ${paint('dim', 'maxTokens')}  ${short(maxTokens)}`];
}

/** The texts of a result, one line of the transcript for each line of text. */
export function texts({ content }: { readonly content?: unknown }): string[] {
  if (!Array.isArray(content)) return [];
  const blocks: unknown[] = content;
  return blocks
    .map((block) => (isJsonObject(block) && typeof block['text'] === 'string' ? block['text'] : ''))
    .flatMap((text) => text.split('\n'))
    .filter((line) => line.trim() !== '');
}

function short(value: JsonValue | undefined): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

function aside(text: string): string {
  return paint('dim', `  (${text})`);
}
