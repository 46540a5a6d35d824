/** How many calls of the process are at work for a client, and how many may be, whatever their routes. */
export class RunningCalls {
  readonly #max: number;
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get count(): number {
    return this.#count;
  }

  get isFull(): boolean {
    return this.#count >= this.#max;
  }

  began(): void {
    this.#count += 1;
  }

  ended(): void {
    this.#count -= 1;
  }
}
