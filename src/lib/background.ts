/** Work that nobody waits for. A defect in it is reported, and ends neither the process nor what others do in it. */
import { channel } from 'node:diagnostics_channel';

/** What went wrong, and where, as far as that is known. */
export interface Defect {
  readonly error: unknown;
  readonly route?: string;
  readonly call?: string;
}

/** Where defects are published. Who runs the process logs them. */
const DEFECTS = channel('mrtr-gateway:defect');

/** Calls the listener with each defect from here on. @returns a function that ends that */
export function onDefect(listener: (defect: Defect) => void): () => void {
  const heard = (message: unknown) => listener(message as Defect);
  DEFECTS.subscribe(heard);
  return () => DEFECTS.unsubscribe(heard);
}

/** Reports a defect. @throws the error if nobody listens, so that no defect is lost */
export function reportDefect(defect: Defect): void {
  if (!DEFECTS.hasSubscribers) throw defect.error;
  DEFECTS.publish(defect);
}

/**
 * Lets work go on that nobody waits for. Failures that can be expected are handled in it: what it rejects with is a defect, which
 * is reported.
 * @param end ends what cannot go on without it
 */
export function inBackground(
  work: PromiseLike<unknown> | undefined,
  end: (error: unknown) => void = () => {},
  where: Omit<Defect, 'error'> = {},
): void {
  work?.then(undefined, (error: unknown) => {
    end(error);
    reportDefect({ ...where, error });
  });
}

/** The same for work without which the process is of no use: a defect in it is for the handlers of the process, which ends. */
export function vitalWork(work: PromiseLike<unknown>): void {
  work.then(undefined, (error: unknown) => {
    throw error;
  });
}
