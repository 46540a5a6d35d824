/** Whether an update of one resource is news for somebody who subscribed to another. */

/**
 * True when the updated resource is the one that was subscribed to, or a part of it: servers may name
 * a sub-resource (schema, `ResourceUpdatedNotificationParams`), and some write URIs in their normal
 * form whatever form they were given.
 */
export function concerns(subscribed: string, updated: string): boolean {
  if (subscribed === updated) return true;
  const whole = normalized(subscribed);
  const part = normalized(updated);
  if (whole === part) return true;
  if (!part.startsWith(whole)) return false;
  return whole.endsWith('/') || ['/', '?', '#'].includes(part.charAt(whole.length));
}

function normalized(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).href : uri;
}
