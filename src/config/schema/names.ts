/** The forms of names that several sections use. */
export const NAME = /^[A-Za-z0-9_-]{1,64}$/;
export const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
