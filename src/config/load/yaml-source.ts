/**
 * Reads YAML or JSON as plain data, with the line and column of every value and key. It accepts one document
 * with string keys, without aliases and tags.
 */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type ErrorCode,
  type YAMLMap,
} from 'yaml';
import type { FieldPath } from './problem.ts';

export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface SourceProblem {
  readonly position: Position;
  readonly path: FieldPath;
  readonly text: string;
}

export interface Source {
  readonly data: unknown;
  readonly problems: readonly SourceProblem[];
  /** The position of a value or, if it is missing, of the nearest value around it. */
  positionOf(path: FieldPath, atKey?: boolean): Position;
}

const MAX_DEPTH = 32;
const START: Position = { line: 1, column: 1 };
const NOT_YAML = 'not valid YAML';

/** Our own messages: the parser's can quote the file, which can contain secrets. */
const SYNTAX: Partial<Record<ErrorCode, string>> = {
  BAD_DQ_ESCAPE: 'unknown escape sequence in double quotes (use \\\\ for a backslash)',
  BAD_INDENT: 'wrong indentation, or a bracket that is not closed',
  BAD_SCALAR_START: 'text begins with a reserved character; put it in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'key inside a value on the same line; put it on its own line, or use quotes',
  BLOCK_IN_FLOW: 'bracket that is not closed, or a list with dashes inside brackets',
  KEY_OVER_1024_CHARS: 'key longer than 1024 characters',
  MISSING_CHAR:
    'missing character, such as a closing quote, a bracket, a comma or a colon; or wrong indentation',
  MULTILINE_IMPLICIT_KEY: 'key of more than one line, or a line without a colon',
  MULTIPLE_DOCS: 'more than one document; remove the "---"',
  RESOURCE_EXHAUSTION: 'nested too deep',
  TAB_AS_INDENT: 'tab as indentation; use spaces',
  TAG_RESOLVE_FAILED: 'tag (!...); put the text in quotes',
  UNEXPECTED_TOKEN: 'unexpected text after the value; put the whole text in quotes',
};

/** A comment of other languages, which people paste with JSON. */
const SLASH_COMMENT = /(?:^|[\s,{[])\/[/*]/m;

/** Reads the text of a file. It reports the first syntax problem and does not throw. */
export function readSource(text: string): Source {
  const lines = new LineCounter();
  const document = parse(text, lines);
  if (document === null) {
    const tooDeep = { position: START, path: [], text: `${NOT_YAML}: nested too deep` };
    return { data: undefined, problems: [tooDeep], positionOf: () => START };
  }
  const reader = new Reader((offset) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  });
  const errors = [...document.errors, ...document.warnings];
  const comment = errors.length === 0 ? null : SLASH_COMMENT.exec(text);
  if (comment !== null) {
    // Whatever the parser makes of it, it is the cause.
    const offset = comment.index + comment[0].length - 2;
    reader.problem([], offset, `${NOT_YAML}: comments begin with #, not with // or /*`);
    return { data: undefined, problems: reader.problems, positionOf: () => START };
  }
  // What the parser reports further on mostly follows from the first one.
  const [first] = errors.toSorted((left, right) => left.pos[0] - right.pos[0]);
  if (first !== undefined) {
    const what = SYNTAX[first.code];
    const text = what === undefined ? `${NOT_YAML} (${first.code})` : `${NOT_YAML}: ${what}`;
    reader.problem([], first.pos[0], text);
  }
  const data = first === undefined ? reader.read(document.contents, []) : undefined;
  return {
    data,
    problems: reader.problems,
    positionOf: (path, atKey) => reader.positionOf(path, atKey ?? false),
  };
}

/** Parses YAML. @returns `null` if the text nests deeper than the stack of the parser allows */
function parse(text: string, lineCounter: LineCounter) {
  try {
    // The parser finds duplicate keys in quadratic time. The reader below does it in one pass.
    return parseDocument(text, { lineCounter, prettyErrors: false, uniqueKeys: false });
  } catch {
    return null;
  }
}

class Reader {
  readonly problems: SourceProblem[] = [];
  readonly #values = new Map<string, Position>();
  readonly #keys = new Map<string, Position>();
  readonly #locate: (offset: number) => Position;

  constructor(locate: (offset: number) => Position) {
    this.#locate = locate;
  }

  problem(path: FieldPath, offset: number, text: string): undefined {
    this.problems.push({ position: this.#locate(offset), path, text });
    return undefined;
  }

  positionOf(path: FieldPath, atKey: boolean): Position {
    for (let length = path.length; length > 0; length -= 1) {
      const place = JSON.stringify(path.slice(0, length));
      const key = this.#keys.get(place);
      const value = this.#values.get(place);
      // For a missing member, the key of the value around it is the best position.
      const found = atKey || length < path.length ? (key ?? value) : (value ?? key);
      if (found !== undefined) return found;
    }
    return START;
  }

  read(node: unknown, path: FieldPath): unknown {
    const offset = offsetOf(node);
    if (offset !== null) this.#values.set(JSON.stringify(path), this.#locate(offset));
    if (path.length > MAX_DEPTH) return this.problem(path, offset ?? 0, 'nested too deep');
    if (isAlias(node)) {
      return this.problem(path, offset ?? 0, 'expected a value, got an alias (*...)');
    }
    if (isMap(node)) return this.#readMap(node, path);
    if (isSeq(node)) return node.items.map((item, index) => this.read(item, [...path, index]));
    return isScalar(node) ? node.value : null;
  }

  #readMap(map: YAMLMap, path: FieldPath): Record<string, unknown> {
    const data: Record<string, unknown> = {};
    for (const { key, value } of map.items) {
      const offset = offsetOf(key) ?? offsetOf(map) ?? 0;
      const name = isScalar(key) ? key.value : undefined;
      if (typeof name !== 'string' || name === '__proto__') {
        this.problem(path, offset, 'expected a string as key; put other keys in quotes');
        continue;
      }
      if (Object.hasOwn(data, name)) {
        this.problem([...path, name], offset, 'duplicate key; remove one of them');
        continue;
      }
      const member = [...path, name];
      this.#keys.set(JSON.stringify(member), this.#locate(offset));
      data[name] = this.read(value, member);
    }
    return data;
  }
}

function offsetOf(node: unknown): number | null {
  const known = isScalar(node) || isMap(node) || isSeq(node) || isAlias(node);
  return known && node.range ? node.range[0] : null;
}
