/** The script of each page of the site. Without it a page lacks the search, and nothing else. */
import { followContents } from './contents.ts';
import { startSearchBox } from './search-box.ts';

/** The folder of the site: pages refer to each other without knowing where it is. */
const root = new URL('.', (document.currentScript as HTMLScriptElement).src).href;

startSearchBox(root);
followContents();
closeWhatIsDone();
makeReachable();

/** A menu that covers the text closes when it has been used, and when Escape is pressed. */
function closeWhatIsDone(): void {
  for (const details of document.querySelectorAll<HTMLDetailsElement>('nav > details')) {
    const close = () => (details.open = false);
    details.addEventListener('click', ({ target }) => {
      if (target instanceof Element && target.closest('a') !== null) close();
    });
    details.addEventListener('keydown', ({ key }) => {
      if (key !== 'Escape' || !details.open) return;
      close();
      details.querySelector('summary')?.focus();
    });
  }
}

/** What scrolls can be scrolled with the keyboard: not every browser sees to that. */
function makeReachable(): void {
  const observer = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      const isScrolled =
        target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
      if (isScrolled) target.setAttribute('tabindex', '0');
      else target.removeAttribute('tabindex');
    }
  });
  for (const element of document.querySelectorAll('.wide, pre, nav')) observer.observe(element);
}
