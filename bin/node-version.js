// Which Node.js this program needs. Plain old JavaScript: an old Node.js must be able to read it.

export var NEEDED = [22, 19];

// Says whether a version such as "22.19.0" is new enough.
export function isRecentEnough(version) {
  var parts = version.split('.').map(Number);
  return parts[0] > NEEDED[0] || (parts[0] === NEEDED[0] && parts[1] >= NEEDED[1]);
}

// One line that says what is needed, what is there, and the way out. Only a checkout can install a Node.js of its own.
export function explain(version, isCheckout) {
  return (
    'mrtr-gateway: requires Node.js ' +
    NEEDED.join('.') +
    ' or newer (found ' +
    version +
    '). ' +
    (isCheckout ? 'Run npm ci, then npm start' : 'Install a newer Node.js')
  );
}
