// Writes the ledger's answers as JSON lines. Shares are exact decimals, bytes are strings.
#pragma once

#include <gpuactors/plan/detail/observer.hpp>

#include <iosfwd>

namespace gpuactors::plan_detail {

/// Writes one line for each event, and one with the final state.
class LineWriter : public Observer {
public:
  explicit LineWriter(std::ostream& out) : out_(out) {
    // nop
  }

  void on_event(const Ledger& ledger, std::size_t step, const Event& event, const std::string& id) override;
  void on_end(const Ledger& ledger, const Names& names) override;

private:
  std::ostream& out_;
};

} // namespace gpuactors::plan_detail
