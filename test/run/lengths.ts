/** Tests that `npm test` leaves out because they take long. A test says so by a tag of that name. */
export interface Length {
  readonly tag: string;
  readonly what: string;
  /** Runs the tests with that tag. */
  readonly script: string;
}

export const LENGTHS: readonly Length[] = [
  {
    tag: 'long',
    what: 'fault tests that take long or much memory',
    script: 'npm run test:faults',
  },
  {
    tag: 'minutes',
    what: 'fault tests that wait for minutes',
    script: 'npm run test:faults:long',
  },
  {
    tag: 'browser',
    what: 'tests that drive a browser',
    script: 'npm run test:browser',
  },
  {
    tag: 'deploy',
    what: 'tests that check what is in deploy/ with the code of Kubernetes, and start it',
    script: 'npm run test:deploy',
  },
];
