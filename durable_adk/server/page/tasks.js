// Keeps tasks from running twice at once.

/**
 * A function that runs an async task; what asks for it meanwhile has it run once more behind, so that
 * answers come in order however slow they are. It returns when nothing is left to run.
 *
 * The task gets a signal. `{ anew: true }` aborts it: what the task under way has asked is not wanted any more.
 */
export function oneAtATime(task) {
  let running = null;
  let again = false;
  let under;
  const run = async () => {
    try {
      do {
        again = false;
        under = new AbortController();
        await task(under.signal);
      } while (again);
    } finally {
      running = null;
    }
  };
  return ({ anew = false } = {}) => {
    if (running) again = true;
    if (running && anew) under.abort();
    return (running ??= run());
  };
}
