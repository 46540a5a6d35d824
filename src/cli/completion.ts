/** Scripts that complete the command in a shell. They are made from the lists of commands and flags. */
import { CONNECTABLE_NAMES } from '../connect/clients.ts';
import { COMMANDS, FLAGS, KEY_FORMATS, SHELLS, type Shell } from './flags.ts';

const PROGRAM = 'mrtr-gateway';
const WORDS = [...COMMANDS, 'help', 'version'];

/** Formats the script for a shell. */
export function completionFor(shell: Shell): string {
  if (shell === 'fish') return fish();
  return shell === 'bash' ? bash() : `autoload -U +X bashcompinit && bashcompinit\n${bash()}`;
}

function bash(): string {
  const flags = COMMANDS.map((command) => `    ${command}) words="${flagsOf(command)}" ;;\n`).join(
    '',
  );
  return `_mrtr_gateway() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}" words
  case "\${COMP_WORDS[1]}" in
${flags}    *) words="${flagsOf('serve')}" ;;
  esac
  if [ "$COMP_CWORD" = 1 ]; then words="${WORDS.join(' ')} $words"; fi
  case "$previous" in
    --config | -c | --from | --seal-key-file | check | mcp.json) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --format) words="${KEY_FORMATS.join(' ')}" ;;
    connect) words="${CONNECTABLE_NAMES.join(' ')} $words" ;;
    completion) words="${SHELLS.join(' ')}" ;;
    help) words="${COMMANDS.join(' ')}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _mrtr_gateway ${PROGRAM}
`;
}

function flagsOf(command: (typeof COMMANDS)[number]): string {
  return FLAGS[command].map(({ name }) => `--${name}`).join(' ');
}

function fish(): string {
  const words = WORDS.map(
    (word) => `complete -c ${PROGRAM} -n __fish_use_subcommand -f -a ${word}\n`,
  );
  const flags = COMMANDS.flatMap((command) => {
    const others = COMMANDS.filter((other) => other !== 'serve').join(' ');
    const seen =
      command === 'serve'
        ? `not __fish_seen_subcommand_from ${others}`
        : `__fish_seen_subcommand_from ${command}`;
    return FLAGS[command].map(({ name, short, value, meaning }) => {
      const letter = short === undefined ? '' : ` -s ${short}`;
      return `complete -c ${PROGRAM} -n '${seen}' -l ${name}${letter}${value === undefined ? '' : ' -r'} -d ${quoted(meaning)}\n`;
    });
  });
  const choices = `complete -c ${PROGRAM} -n '__fish_seen_subcommand_from completion' -f -a '${SHELLS.join(' ')}'\n`;
  const clients = `complete -c ${PROGRAM} -n '__fish_seen_subcommand_from connect' -f -a '${CONNECTABLE_NAMES.join(' ')}'\n`;
  return [...words, ...flags, choices, clients].join('');
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
