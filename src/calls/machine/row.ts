/** One row of the parked-call table, and how it is written down with its types checked. */
import type {
  CallEvent,
  CallLimits,
  CallState,
  EventName,
  EventNamed,
  StateName,
  StateNamed,
  Step,
  StepTo,
} from './states.ts';

export interface Row {
  /** Its name in the trace log and in docs/parked-call.md. */
  readonly rule: string;
  readonly from: readonly StateName[];
  readonly on: EventName;
  /** The states this row can lead to, for the diagram; if they are those of `from`, each one stays. */
  readonly to: readonly StateName[];
  readonly why: string;
  /** `null` if the row applies whenever state and event fit. */
  readonly when: ((state: CallState, event: CallEvent, limits: CallLimits) => boolean) | null;
  readonly then: (state: CallState, event: CallEvent, limits: CallLimits) => Step;
}

export interface TypedRow<From extends StateName, On extends EventName, To extends StateName> {
  readonly rule: string;
  readonly from: readonly From[];
  readonly on: On;
  readonly to: readonly To[];
  readonly why: string;
  readonly when?: (state: StateNamed<From>, event: EventNamed<On>, limits: CallLimits) => boolean;
  readonly then: (
    state: StateNamed<From>,
    event: EventNamed<On>,
    limits: CallLimits,
  ) => StepTo<NoInfer<To>>;
}

/** Checks a row's types where it is written; the table itself is read without them. */
export function row<From extends StateName, On extends EventName, To extends StateName>(
  typed: TypedRow<From, On, To>,
): Row {
  return {
    ...typed,
    when: (typed.when ?? null) as Row['when'],
    // What `to` allows is a state: the compiler cannot see that for a name that it does not know.
    then: typed.then as unknown as Row['then'],
  };
}
