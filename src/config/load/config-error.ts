/** The one error that a configuration can cause. */

export type ConfigErrorCode = 'config_invalid' | 'config_unreadable';

const MAX_LINES = 20;

/** Thrown for a configuration that cannot be used. `message` has one line per problem and no secret. */
export class ConfigError extends Error {
  readonly code: ConfigErrorCode;
  readonly problems: readonly string[];

  constructor(code: ConfigErrorCode, problems: readonly string[]) {
    super(joinLines(problems));
    this.name = 'ConfigError';
    this.code = code;
    this.problems = problems;
  }
}

function joinLines(problems: readonly string[]): string {
  const more = problems.length - MAX_LINES;
  const shown = problems.slice(0, MAX_LINES);
  return (more > 0 ? [...shown, `and ${more} more problems`] : shown).join('\n');
}
