/** The keys `allow`, `deny` and `rules` of `routes[].tools`, `.prompts` and `.resources`: who may use what. */
import { z } from 'zod';
import { foldedPattern, type KindRights, type TargetKind } from '../../limits/rights.ts';
import { list, orNull, scopes, section, text } from './fields.ts';

const KINDS = {
  tools: ['tool', 'names'],
  prompts: ['prompt', 'names'],
  resources: ['resource', 'URIs'],
} as const satisfies Readonly<Record<string, readonly [TargetKind, string]>>;

/** No controls and nothing invisible, and a `*` only at the end. */
const PATTERN = /^(?:[^\p{C}*]+\*?|\*)$/u;
const MAX_PATTERNS = 1_000;
const MAX_RULES = 100;

const CLAIM_EXPECTED = 'a text, a number, true or false, or a list of these';
const claimValue = z.union([z.string(), z.number(), z.boolean()]);
const claims = z
  .record(
    z.string(),
    z.union([claimValue, z.array(claimValue).min(1, { error: CLAIM_EXPECTED })], {
      error: CLAIM_EXPECTED,
    }),
    { error: 'a map of claims to values' },
  )
  .meta({ title: 'map of claims to values' })
  .prefault({})
  .describe(
    'Claims that the token must have, each with this value or one of these, or with one of them in its list. A name that begins with `/` is a path, such as `/realm_access/roles`.',
  );

/** Describes the keys of one kind, which are part of its section. */
export function rightsFields(key: keyof typeof KINDS) {
  const [kind, names] = KINDS[key];
  const pattern = text(PATTERN, `${names} of ${key}, with "*" only at the end`, names);
  const patterns = (meaning: string) => list(`${names} of ${key}`, pattern, meaning, MAX_PATTERNS);
  return {
    allow: orNull(
      z
        .array(pattern, { error: `a list of ${names} of ${key}` })
        .max(MAX_PATTERNS, { error: `at most ${MAX_PATTERNS} ${names} of ${key}` })
        .meta({ title: `list of ${names}` })
        .describe(
          `The ${key} that every caller may use; \`*\` at the end stands for any ending. With \`allow\` or \`rules\`, all others are refused.`,
        ),
    ),
    deny: patterns(`The ${key} that nobody may use, in any spelling.`).transform((denied) =>
      denied.map((one) => foldedPattern(kind, one)),
    ),
    rules: orNull(
      z
        .array(ruleOf(key, patterns('What the rule allows.')), { error: 'a list of rules' })
        .min(1, { error: 'a list of at least one rule' })
        .max(MAX_RULES, { error: `at most ${MAX_RULES} rules` })
        .meta({ title: 'list' })
        .describe(
          `The ${key} that callers with certain tokens may use, if one rule allows it. Needs \`identity.source: jwt\`.`,
        ),
    ),
  };
}

type Rule = NonNullable<KindRights['rules']>[number];

/** A rule names what it allows by the key of its section. */
function ruleOf(key: string, patterns: z.ZodType<readonly string[]>) {
  const expected = `a map with ${key}, and with scopes, claims or both`;
  const shape: Readonly<Record<string, z.ZodType>> = {
    [key]: patterns,
    scopes: scopes('Scopes that the token must have, all of them.'),
    claims,
  };
  return section(shape, expected).transform((read, context): Rule => {
    const { scopes, claims: values } = read as unknown as ReadRule;
    const rule = {
      names: read[key] as Rule['names'],
      scopes,
      claims: Object.fromEntries(
        Object.entries(values).map(([name, value]) => [name, [value].flat()]),
      ),
    };
    if (rule.names.length === 0) {
      context.addIssue({ code: 'custom', path: [key], message: `at least one of the ${key}` });
    }
    if (rule.scopes.length === 0 && Object.keys(rule.claims).length === 0) {
      context.addIssue({ code: 'custom', message: `${expected} (allow has no conditions)` });
    }
    return rule;
  });
}

interface ReadRule {
  readonly scopes: readonly string[];
  readonly claims: z.output<typeof claims>;
}
