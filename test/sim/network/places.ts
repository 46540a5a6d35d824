/** A place is a machine: the processes that run there one after the other have its name, and a number of their own. */

const SEPARATOR = '.';

/** The name of the nth process at a place, from 1. */
export function processAt(place: string, nth: number): string {
  return nth === 1 ? place : `${place}${SEPARATOR}${nth}`;
}

export function placeOf(owner: string): string {
  const at = owner.indexOf(SEPARATOR);
  return at === -1 ? owner : owner.slice(0, at);
}
