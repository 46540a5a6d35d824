/** The titles of the tests and groups of a test file, as they are written there, placeholders included. */
import ts from 'typescript';

const NAMES = new Set(['test', 'describe', 'it']);

/** In: TypeScript. Out: the first argument of each `test(…)`, `describe.each(…)(…)` and the like. */
export function testTitlesIn(code: string): Set<string> {
  const titles = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && NAMES.has(rootOf(node.expression))) {
      const [title] = node.arguments;
      if (title !== undefined && ts.isStringLiteralLike(title)) titles.add(title.text);
      if (title !== undefined && ts.isTemplateExpression(title)) {
        titles.add(title.getText().slice(1, -1));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('test.ts', code, ts.ScriptTarget.Latest, true));
  return titles;
}

/** `test` of `test.skipIf(…).each([…])`. */
function rootOf(callee: ts.Node): string {
  if (ts.isIdentifier(callee)) return callee.text;
  const isChained = ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee);
  return isChained ? rootOf(callee.expression) : '';
}
