/**
 * The rule lists in docs/rules, generated from comments above the tests:
 *
 *     // Rule forms-3 (elicitation, "Requested Schema"): A property with one allowed value is asked as a choice.
 *
 * The comment stands above one test, the home of the rule. Other tests that hold the rule refer to it with
 * `// Rule forms-3.` or `// Rules forms-3, urls-1.`
 */

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
  /** The file of the test that has the text above it. */
  readonly home: string;
}

const KEY = /[a-z]+(?:-[a-z]+)*-\d+/;
const HOME = new RegExp(`^Rule (${KEY.source})(?: \\((.+?)\\))?: (.+)$`);
const REFERENCE = new RegExp(`^Rules? (${KEY.source}(?:, ${KEY.source})*)\\.$`);
/** What a rule comment stands above; a loop may hold a group of tests. */
const TEST = /^\s*(?:test|describe|it|for)\b/;
const SECTION = /<!-- rules ([a-z-]+) -->/g;
const WIDTH = 118;
/** What a reader takes in at once. Reasons are in comments and in docs/adr. */
const MAX_WORDS = 40;
/** A space that is not in a code span. */
const OUTSIDE_CODE = / (?=(?:[^`]*`[^`]*`)*[^`]*$)/;

/**
 * Reads the rules from the comments of all test files.
 *
 * @throws {Error} with one line for each comment that is malformed, each rule that is a duplicate or too long, and
 *   each reference to a rule that has no home
 */
export function readRules(files: readonly TestFile[]): Rule[] {
  const comments = files.flatMap(({ path, text }) => commentsIn(path, text));
  const problems: string[] = [];
  const rules = new Map<string, Rule>();
  const references = new Set<string>();
  for (const { path, line, text, isAboveTest } of comments) {
    const where = `${path}:${line}`;
    if (!isAboveTest) problems.push(`${where}: expected a test below the rule comment`);
    const [, key, specification = null, rule] = HOME.exec(text) ?? [];
    const [, others] = REFERENCE.exec(text) ?? [];
    if (key !== undefined && rule !== undefined) {
      if (rules.has(key)) problems.push(`${where}: duplicate rule ${key}`);
      const words = rule.split(' ').length;
      if (words > MAX_WORDS) {
        problems.push(`${where}: rule ${key} has ${words} words, expected at most ${MAX_WORDS}`);
      }
      rules.set(key, { key, text: rule, specification, home: path });
    } else if (others !== undefined) {
      for (const other of others.split(', ')) references.add(other);
    } else {
      problems.push(`${where}: malformed rule comment: ${text}`);
    }
  }
  for (const key of references) {
    if (!rules.has(key)) problems.push(`rule ${key} has no text: expected "// Rule ${key}: ..."`);
  }
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return [...rules.values()];
}

/**
 * Lists the rules on a page, below the marker of each section (`<!-- rules forms -->`). What a list holds already is
 * replaced. The number of a rule is a link to its home.
 */
export function withRules(page: string, rules: readonly Rule[]): string {
  const listed = page.replace(
    /(<!-- rules ([a-z-]+) -->\n)[^]*?(?=\n## |$(?![^]))/g,
    (_, marker: string, section: string) =>
      `${marker}\n${rulesOf(section, rules).map(itemOf).join('\n')}\n`,
  );
  return `${listed.trimEnd()}\n`;
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

function itemOf({ key, text, specification, home }: Rule): string {
  const source = specification === null ? '' : ` _(${specification})_`;
  return wrapped(`- **[${key}](../../${home})** ${text}${source}`);
}

function wrapped(item: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of item.split(OUTSIDE_CODE)) {
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
