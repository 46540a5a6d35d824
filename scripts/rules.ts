/**
 * The rule lists in docs/rules, generated from comments above the tests:
 *
 *     // Rule forms-3 (elicitation, "Requested Schema"): A property with one allowed value is asked as a choice.
 *
 * The comment stands above one test, the home of the rule. Other tests that hold the rule refer to it with
 * `// Rule forms-3.` or `// Rules forms-3, urls-1.`
 */
import { basename } from 'node:path';

export interface TestFile {
  /** Relative to the root of the repository, with slashes. */
  readonly path: string;
  readonly text: string;
}

export interface Rule {
  /** Section and number, such as `forms-3`. */
  readonly key: string;
  readonly text: string;
  /** The section of the specification that says so; `null` if the gateway sets the rule. */
  readonly specification: string | null;
  /** Paths of the test files that hold the rule; that of its home comes first. */
  readonly files: readonly string[];
}

const KEY = /[a-z]+(?:-[a-z]+)*-\d+/;
const HOME = new RegExp(`^Rule (${KEY.source})(?: \\((.+?)\\))?: (.+)$`);
const REFERENCE = new RegExp(`^Rules? (${KEY.source}(?:, ${KEY.source})*)\\.$`);
/** What a rule comment stands above; a loop may hold a group of tests. */
const TEST = /^\s*(?:test|describe|it|for)\b/;
const SECTION = /<!-- rules ([a-z-]+) -->/g;
const WIDTH = 118;

/**
 * Reads the rules from the comments of all test files.
 *
 * @throws {Error} with one line for each comment that is malformed, each duplicate rule, and each reference to a
 *   rule that has no home
 */
export function readRules(files: readonly TestFile[]): Rule[] {
  const comments = files.flatMap(({ path, text }) => commentsIn(path, text));
  const problems: string[] = [];
  const homes = new Map<string, { path: string; text: string; specification: string | null }>();
  const holders = new Map<string, Set<string>>();
  for (const { path, line, text, isAboveTest } of comments) {
    const where = `${path}:${line}`;
    if (!isAboveTest) problems.push(`${where}: expected a test below the rule comment`);
    const [, key, specification = null, rule] = HOME.exec(text) ?? [];
    const [, references] = REFERENCE.exec(text) ?? [];
    if (key !== undefined && rule !== undefined) {
      if (homes.has(key)) problems.push(`${where}: duplicate rule ${key}`);
      homes.set(key, { path, text: rule, specification });
    } else if (references !== undefined) {
      for (const other of references.split(', ')) {
        holders.set(other, (holders.get(other) ?? new Set()).add(path));
      }
    } else {
      problems.push(`${where}: malformed rule comment: ${text}`);
    }
  }
  for (const key of holders.keys()) {
    if (!homes.has(key)) problems.push(`rule ${key} has no text: expected "// Rule ${key}: ..."`);
  }
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return [...homes].map(([key, { path, text, specification }]) => ({
    key,
    text,
    specification,
    files: [...new Set([path, ...[...(holders.get(key) ?? [])].toSorted()])],
  }));
}

/**
 * Lists the rules on a page, below the marker of each section (`<!-- rules forms -->`). What a list holds already is
 * replaced.
 */
export function withRules(page: string, rules: readonly Rule[]): string {
  const onPage = sectionsOf(page).flatMap((section) => rulesOf(section, rules));
  const links = linksFor([...new Set(onPage.flatMap(({ files }) => files))].toSorted());
  const listed = page.replace(
    /(<!-- rules ([a-z-]+) -->\n)[^]*?(?=\n## |$(?![^]))/g,
    (_, marker: string, section: string) =>
      `${marker}\n${rulesOf(section, rules)
        .map((rule) => itemOf(rule, links))
        .join('\n')}\n`,
  );
  const definitions = [...links].map(([path, name]) => `[${name}]: ../../${path}`);
  return `${listed.trimEnd()}\n\n${definitions.join('\n')}\n`;
}

/** The names of the sections that a page lists. */
export function sectionsOf(page: string): string[] {
  return [...page.matchAll(SECTION)].map(([, section = '']) => section);
}

/** The section of a rule: `forms` of `forms-3`. */
export function sectionOf({ key }: Rule): string {
  return key.slice(0, key.lastIndexOf('-'));
}

function rulesOf(section: string, rules: readonly Rule[]): Rule[] {
  const number = ({ key }: Rule) => Number(key.slice(key.lastIndexOf('-') + 1));
  return rules
    .filter((rule) => sectionOf(rule) === section)
    .toSorted((one, other) => number(one) - number(other));
}

function itemOf(
  { key, text, specification, files }: Rule,
  links: ReadonlyMap<string, string>,
): string {
  const source = specification === null ? '' : ` _(${specification})_`;
  const tests = files.map((path) => `[${links.get(path)}]`).join(' ');
  return wrapped(`- **${key}** ${text}${source} ${tests}`);
}

/** Names for the links to test files: that of the file, and its folder if two files have the same name. */
function linksFor(paths: readonly string[]): Map<string, string> {
  const nameOf = (path: string) => basename(path, '.test.ts');
  const count = (name: string) => paths.filter((path) => nameOf(path) === name).length;
  return new Map(
    paths.map((path) => {
      const name = nameOf(path);
      const folder = path.replace(/^test\//, '').replace(/\.test\.ts$/, '');
      return [path, count(name) > 1 ? folder : name];
    }),
  );
}

function wrapped(item: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of item.split(' ')) {
    if (line !== '' && `${line} ${word}`.length > WIDTH) {
      lines.push(line);
      line = `  ${word}`;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].join('\n');
}

interface RuleComment {
  readonly path: string;
  readonly line: number;
  readonly text: string;
  readonly isAboveTest: boolean;
}

function commentsIn(path: string, code: string): RuleComment[] {
  const lines = code.split('\n');
  const comments: RuleComment[] = [];
  lines.forEach((text, index) => {
    if (!/^\s*\/\/ Rules? /.test(text)) return;
    let end = index + 1;
    while (/^\s*\/\/ (?!Rules? )/.test(lines[end] ?? '')) end += 1;
    let below = end;
    while (/^\s*\/\//.test(lines[below] ?? '')) below += 1;
    comments.push({
      path,
      line: index + 1,
      text: lines
        .slice(index, end)
        .map((one) => one.replace(/^\s*\/\/ /, '').trim())
        .join(' '),
      isAboveTest: TEST.test(lines[below] ?? ''),
    });
  });
  return comments;
}
