/** Marks the section that is read in the contents of the page, and keeps it in sight. */
export function followContents(): void {
  const contents = document.querySelector<HTMLElement>('nav.contents');
  if (contents === null) return;
  const links = new Map(
    [...contents.querySelectorAll('a')].map((link) => [
      decodeURIComponent(link.hash.slice(1)),
      link,
    ]),
  );
  const headings = [...links.keys()]
    .map((id) => document.getElementById(id))
    .filter((heading) => heading !== null);
  let current: HTMLAnchorElement | undefined;
  const mark = () => {
    // Where a heading is after a link led to it.
    const line = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) + 8;
    const read = headings.findLast((heading) => heading.getBoundingClientRect().top < line);
    const link = links.get(read?.id ?? '');
    if (link === current) return;
    current?.removeAttribute('aria-current');
    link?.setAttribute('aria-current', 'true');
    current = link;
    if (link === undefined) return;
    const [outer, inner] = [contents.getBoundingClientRect(), link.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) {
      contents.scrollTop += inner.top - outer.top - outer.height / 2;
    }
  };
  let isMarking = false;
  const soon = () => {
    if (isMarking) return;
    isMarking = true;
    requestAnimationFrame(() => {
      isMarking = false;
      mark();
    });
  };
  addEventListener('scroll', soon, { passive: true });
  addEventListener('resize', soon, { passive: true });
  mark();
}
