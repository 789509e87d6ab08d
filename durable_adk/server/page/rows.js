// Keeps the children of an element by key, so that what is read again does not replace them.

/**
 * A row is made once, and drawn again only when what is told of it is another. Rows are not moved but to
 * let others in between: a click, the focus and what is written in them would be lost.
 */
export class Rows {
  #parent;
  #make;
  #draw;
  #shown = new Map(); // key -> {element, looks}

  /**
   * @param {Element} parent has the rows, and nothing else
   * @param {function(object): Element} make makes the element of a row
   * @param {function(Element, object)} draw has it show what is told of the row
   */
  constructor(parent, make, draw = () => {}) {
    this.#parent = parent;
    this.#make = make;
    this.#draw = draw;
  }

  /** @param {Array} rows the keys and what is told of each, JSON: `[[key, about]]`, in order */
  show(rows) {
    const shown = new Map();
    for (const [key, about] of rows) {
      const looks = JSON.stringify(about);
      const { element, looks: before } = this.#shown.get(key) ?? { element: this.#make(about) };
      if (looks !== before) this.#draw(element, about);
      shown.set(key, { element, looks });
    }
    for (const [key, { element }] of this.#shown) if (!shown.has(key)) element.remove();
    this.#shown = shown;
    let at = this.#parent.firstElementChild;
    for (const { element } of shown.values()) {
      if (element === at) at = at.nextElementSibling;
      else this.#parent.insertBefore(element, at);
    }
  }
}
