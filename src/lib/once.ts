/**
 * Wraps a function so that it is called the first time only.
 * @returns a function that gives the value of that first call each time
 */
export function once<Made>(make: () => Made): () => Made {
  let made: { readonly value: Made } | null = null;
  return () => (made ??= { value: make() }).value;
}

/**
 * Wraps a function that loads something, so that it succeeds once. What failed, such as for lack of file descriptors, is tried
 * again when it is asked for next.
 */
export function loadedOnce<Loaded>(load: () => Promise<Loaded>): () => Promise<Loaded> {
  let loading: Promise<Loaded> | null = null;
  return () =>
    (loading ??= load().catch((error: unknown) => {
      loading = null;
      throw error;
    }));
}
