/** Programs that people use as clients: which protocol they speak, and whether they can be asked. docs/clients.md says where that is known from. */

export interface ClientProgram {
  readonly client: string;
  /** Whether it speaks 2026-07-28. `switched-on`: only if its user says so; `unknown` if nobody has told. */
  readonly modern: 'yes' | 'switched-on' | 'no' | 'unknown';
  /** What to switch on, as a sentence begins. */
  readonly switch?: string;
  /** Whether it declares that its user can be asked; `null` if that is not known. */
  readonly canBeAsked: boolean | null;
  /** Whether it connects from the internet. */
  readonly isHosted?: true;
}

export const CLIENT_PROGRAMS = {
  'claude-code': { client: 'Claude Code', modern: 'yes', canBeAsked: true },
  copilot: { client: 'GitHub Copilot CLI', modern: 'yes', canBeAsked: true },
  codex: {
    client: 'Codex CLI',
    modern: 'switched-on',
    switch: 'mcp_2026_07_28 = true under [features]',
    canBeAsked: true,
  },
  inspector: {
    client: 'MCP Inspector',
    modern: 'switched-on',
    switch: 'the Protocol Era modern',
    canBeAsked: true,
  },
  vscode: { client: 'VS Code', modern: 'no', canBeAsked: true },
  cursor: { client: 'Cursor', modern: 'unknown', canBeAsked: null },
  'claude-desktop': {
    client: 'Claude on the web and the desktop',
    modern: 'unknown',
    canBeAsked: null,
    isHosted: true,
  },
  chatgpt: { client: 'ChatGPT', modern: 'yes', canBeAsked: true, isHosted: true },
  gemini: { client: 'Gemini CLI', modern: 'no', canBeAsked: false },
  qwen: { client: 'Qwen Code', modern: 'no', canBeAsked: false },
  opencode: { client: 'opencode', modern: 'no', canBeAsked: false },
} as const satisfies Readonly<Record<string, ClientProgram>>;

export type ClientProgramName = keyof typeof CLIENT_PROGRAMS;
