/** How the benchmark learns the way in which the image runs the program. */
import { expect, test } from 'vitest';
import { imageRun, readImageRun } from '../../../bench/processes/image.ts';

test('reads the flags of node and its variables from the last stage', () => {
  const dockerfile = `FROM node AS build
ENV NODE_ENV=development
FROM node
ENV NODE_ENV=production
ENV MALLOC_ARENA_MAX=2
ENV GREETING=hello
ENV NODE_OPTIONS="--max-semi-space-size=16 --title=gateway"
ENTRYPOINT ["node", "--max-old-space-size-percentage=60", "bin/mrtr-gateway.js", "--config"]
`;
  expect(readImageRun(dockerfile)).toEqual({
    flags: ['--max-old-space-size-percentage=60'],
    env: {
      NODE_ENV: 'production',
      MALLOC_ARENA_MAX: '2',
      NODE_OPTIONS: '--max-semi-space-size=16 --title=gateway',
    },
  });
});

test('an image that does not run node is an error', () => {
  expect(() => readImageRun('\nFROM node\nENTRYPOINT ["/bin/sh"]\n')).toThrow(/does not run node/);
});

test('our Dockerfile is understood', () => {
  expect(imageRun().env['NODE_ENV']).toBe('production');
});
