import { expect, test } from 'vitest';
import { GivenAnswers } from '../../../../src/calls/call/questions.ts';

const answered = (question: string, name: string) => ({
  question,
  reply: { result: { action: 'accept', content: { name } } },
});
const [first, again, other] = [answered('q', 'Ada'), answered('q', 'Eve'), answered('r', 'Bob')];

test('a call that is not replayed repeats no answer: a question that comes twice is asked twice', () => {
  const given = new GivenAnswers();
  given.add(first);
  expect(given.repeat('q')).toBeUndefined();
});

// Rule replay-3.
test('each answer is repeated once, those to the same question in the order in which they were given', () => {
  const given = new GivenAnswers();
  given.add(first, other, again);
  given.repeatAll();
  expect(given.repeat('q')).toEqual(first.reply);
  expect(given.repeat('q')).toEqual(again.reply);
  expect(given.repeat('q'), 'asked once more than before').toBeUndefined();
  expect(given.repeat('unknown')).toBeUndefined();
  expect(given.repeat('r')).toEqual(other.reply);
  expect(given.repeat('r')).toBeUndefined();
});

// Rule replay-3.
test('what was repeated is still known for the next replay of the call', () => {
  const given = new GivenAnswers();
  given.add(first);
  given.repeatAll();
  given.repeat('q');
  given.add(other);
  expect(given.all).toEqual([first, other]);
});
