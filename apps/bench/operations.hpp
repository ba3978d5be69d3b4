// One operation again and again and nothing else: what a profiler looks at, and what instructions are counted of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::bench {

/// Names of the operations: "ledger", "embedded", "remote", "task".
[[nodiscard]] std::vector<std::string> operation_names();

/// Does one of them so many times after one that does not count: `ledger`, a grant and its release; `embedded`, a call
/// of an actor in this process, `remote`, of one in another process, both with some calls in flight; `task`, a task in
/// this process, likewise. An error ends the program.
void run_operations(std::string_view name, int count);

} // namespace gpuactors::bench
