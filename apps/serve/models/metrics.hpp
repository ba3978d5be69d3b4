// The numbers of a server in the text format of Prometheus, under Triton's names where Triton has them.
#pragma once

#include "dispatcher.hpp"

#include <string>
#include <vector>

namespace serve {

/// A model that should serve, and whether it does.
struct ModelState {
  std::string name;
  bool serves = false;
};

/// The text of /metrics: for every version that serves, or still does. Pure.
[[nodiscard]] std::string render_metrics(const std::vector<DispatcherSnapshot>& versions,
                                         const std::vector<ModelState>& models);

} // namespace serve
