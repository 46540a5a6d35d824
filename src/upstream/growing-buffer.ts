/** A buffer for many small pieces. */

/** A buffer that has grown beyond this is not used again. */
const KEPT_BYTES = 64 * 1024;

export class GrowingBuffer {
  #buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(bytes: Buffer): void {
    if (bytes.length === 0) return;
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(1024, Math.ceil(length * 1.5)));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  /** Takes all bytes. They stay as they are until the next ones are appended. */
  take(): Buffer {
    const all = this.#buffer.subarray(0, this.#length);
    if (this.#length > KEPT_BYTES) this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return all;
  }
}
