export const NEEDED: readonly [number, number];
export function isRecentEnough(version: string): boolean;
export function explain(version: string, isCheckout: boolean): string;
