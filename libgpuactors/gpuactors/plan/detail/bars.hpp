// Draws how full the devices are, as bars in a terminal.
#pragma once

#include <gpuactors/plan/detail/observer.hpp>

#include <iosfwd>
#include <string>
#include <vector>

namespace gpuactors::plan_detail {

/// One line: a device, a node, or several nodes in the order of their names.
struct Bar {
  std::string name;
  std::string type;
  /// The held parts of one whole, in the order in which they are drawn.
  std::vector<double> parts;
  /// "0.75 of 1"
  std::string amount;
  /// "60 of 80 GiB"
  std::string memory;
  std::string holders;
  bool failed = false;
};

/// Draws aligned lines, each with a bar of `cells` characters in which neighbouring parts differ. Pure.
[[nodiscard]] std::string draw_bars(const std::vector<Bar>& bars, int cells = 20);

/// Writes the bars at the end of a scenario: a line a device while they are few, then a line a node, then a line for
/// several nodes; never more than `most_lines`.
class BarWriter : public Observer {
public:
  static constexpr std::size_t most_lines = 64;

  explicit BarWriter(std::ostream& out) : out_(out) {
    // nop
  }

  void on_end(const Ledger& ledger, const Names& names) override;

private:
  std::ostream& out_;
};

} // namespace gpuactors::plan_detail
