/** What the site has, and in which order: by what a reader needs. A new file finds its place by a pattern. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Page {
  /** The path of the file in the repository. */
  readonly source: string;
  readonly title: string;
}

export interface Group {
  readonly name: string;
  readonly pages: readonly Page[];
  /** Groups inside this one, which are closed at first. */
  readonly groups: readonly Group[];
  /** How much a page of this group counts in a search. */
  readonly weight: number;
}

interface Plan {
  readonly name: string;
  readonly patterns: readonly string[];
  readonly groups?: readonly Plan[];
  readonly weight?: number;
}

const PLAN: readonly Plan[] = [
  {
    name: 'Tutorial',
    patterns: ['README.md', 'docs/tutorial*.md', 'docs/tutorial*/**/*.md'],
    weight: 1.2,
  },
  {
    name: 'How-to guides',
    patterns: [
      'docs/operations.md',
      'docs/install.md',
      'docs/in-clients.md',
      'docs/operate/**/*.md',
      'docs/upgrading.md',
    ],
    weight: 1.2,
  },
  {
    name: 'Reference',
    patterns: [
      'docs/configuration.md',
      'docs/operate/errors.md',
      'docs/operate/log.md',
      'docs/operate/metrics.md',
      'docs/features.md',
      'docs/clients.md',
      'docs/servers.md',
      'deploy/helm/*/README.md',
      'CHANGELOG.md',
    ],
    groups: [
      { name: 'Rules', patterns: ['docs/rules/**/*.md'], weight: 0.7 },
      { name: 'Dialects', patterns: ['docs/dialects/README.md', 'docs/dialects/**/*.md'] },
    ],
  },
  {
    name: 'Explanation',
    patterns: [
      'docs/architecture.md',
      'docs/parked-call.md',
      'docs/legacy-clients.md',
      'docs/security.md',
      'docs/threats.md',
      'docs/performance.md',
      'docs/*.md',
      'bench/README.md',
    ],
    weight: 0.8,
    groups: [
      { name: 'Decisions', patterns: ['docs/adr/README.md', 'docs/adr/**/*.md'], weight: 0.5 },
    ],
  },
  {
    name: 'Work on it',
    patterns: ['CONTRIBUTING.md', 'docs/releasing.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md'],
    weight: 0.6,
  },
];

/** Reads the menu of a repository. A file is where it is named, or else where the first pattern is that finds it. */
export function readMenu(root: string): Group[] {
  const taken = new Set(allPatterns(PLAN).filter((pattern) => !pattern.includes('*')));
  const groupOf = ({ name, patterns, groups = [], weight = 1 }: Plan): Group => {
    const pages = patterns
      .flatMap((pattern) => {
        const found = globSync(pattern, { cwd: root }).toSorted();
        if (!pattern.includes('*')) return found;
        const free = found.filter((source) => !taken.has(source));
        for (const source of free) taken.add(source);
        return free;
      })
      .map((source) => ({ source, title: titleOf(root, source) }));
    return { name, pages, groups: groups.map(groupOf), weight };
  };
  return PLAN.map(groupOf);
}

/** The pages of groups and of the groups inside them, with the weight of their group. */
export function pagesOf(groups: readonly Group[]): (Page & { readonly weight: number })[] {
  return groups.flatMap(({ pages, groups: inside, weight }) => [
    ...pages.map((page) => ({ ...page, weight })),
    ...pagesOf(inside),
  ]);
}

function allPatterns(plans: readonly Plan[]): string[] {
  return plans.flatMap(({ patterns, groups = [] }) => [...patterns, ...allPatterns(groups)]);
}

function titleOf(root: string, source: string): string {
  const heading = /^# (.+)$/m.exec(readFileSync(join(root, source), 'utf8'))?.[1] ?? source;
  return heading.replaceAll('`', '');
}
