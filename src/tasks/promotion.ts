/** Which calls become tasks, and when: as the operator has configured it for the route and the tool. */
import type { EdgeRequest, Promotion } from '../model/request.ts';

/**
 * When the call of a client that knows tasks becomes one.
 * - `never`
 * - `slow`: after a while, or when its server runs it as a task
 * - `interactive`: as `slow`, and when its server asks something
 * - `always`: at once
 */
export type PromotionPolicy = 'never' | 'slow' | 'interactive' | 'always';

export interface PromotionSettings {
  readonly promote: PromotionPolicy;
  /** The policies of single tools. */
  readonly tools: Readonly<Record<string, PromotionPolicy>>;
  readonly afterMs: number;
  readonly ttlMs: number;
}

const MIN_TTL_MS = 1_000;

/** Decides whether and when a call becomes a task. @returns `null` if it does not */
export function promotionOf(
  { method, params, profile, wantsTask }: EdgeRequest,
  { promote, tools, afterMs, ttlMs }: PromotionSettings,
): Promotion | null {
  // Only this method can have a task as its result ("Supported Methods").
  if (method !== 'tools/call' || profile.tasks !== true) return null;
  const tool = String(params['name']);
  const policy = Object.hasOwn(tools, tool) ? tools[tool] : promote;
  if (wantsTask !== undefined || policy === 'always') {
    const askedMs = Math.max(MIN_TTL_MS, wantsTask?.ttlMs ?? ttlMs);
    return { afterMs: 0, onQuestion: true, ttlMs: Math.min(askedMs, ttlMs) };
  }
  if (policy === 'never') return null;
  return { afterMs, onQuestion: policy === 'interactive', ttlMs };
}

/** Keeps of a decision what goes for calls that their server runs as legacy tasks. */
export function onlyServerTasks(promotion: Promotion | null): Promotion | null {
  return promotion && { ...promotion, afterMs: null, onQuestion: false };
}

/** True if any call can become a task. */
export function promotesAny({ promote, tools }: PromotionSettings): boolean {
  return [promote, ...Object.values(tools)].some((policy) => policy !== 'never');
}
