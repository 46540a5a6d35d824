/**
 * Wraps a function so that it is called the first time only.
 * @returns a function that gives the value of that first call each time
 */
export function once<Made>(make: () => Made): () => Made {
  let made: { readonly value: Made } | null = null;
  return () => (made ??= { value: make() }).value;
}
