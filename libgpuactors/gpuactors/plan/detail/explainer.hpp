// Explains one request or placement group: what every node said to it when it was submitted, and at the end if it waits
// then.
#pragma once

#include <gpuactors/plan/detail/observer.hpp>

#include <iosfwd>
#include <optional>
#include <vector>

namespace gpuactors::plan_detail {

/// Watches for one id, and writes at the end. Keeps a line for each node, however long the scenario is.
class Explainer : public Observer {
public:
  Explainer(std::ostream& out, std::string id, bool json) : out_(out), id_(std::move(id)), json_(json) {
    // nop
  }

  void before_submit(const Ledger& ledger, std::size_t step, const std::string& id,
                     const ResourceRequest& request) override;
  void before_submit_group(const Ledger& ledger, std::size_t step, const std::string& id,
                           const GroupRequest& group) override;
  void on_event(const Ledger& ledger, std::size_t step, const Event& event, const std::string& id) override;

  /// @throws ScenarioError when no step has submitted the id.
  void on_end(const Ledger& ledger, const Names& names) override;

private:
  struct Answer {
    std::size_t step = 0;
    Event event;
  };

  /// The answer of one node, or of one bundle of a placement group, to the request or to one bundle of the group.
  struct Line {
    int asked_bundle = -1;
    NodeVerdict verdict;
  };

  struct Snapshot {
    std::optional<std::size_t> step;
    std::vector<Line> lines;
  };

  [[nodiscard]] std::vector<Line> ask(const Ledger& ledger) const;
  void remember(const std::string& id);
  void write_text() const;
  void write_json() const;
  void write_snapshot(const Snapshot& snapshot) const;

  std::ostream& out_;
  std::string id_;
  bool json_;
  bool is_group_ = false;
  // What the nodes are asked for: one entry for a request, one for each bundle of a group.
  std::vector<ResourceRequest> asked_;
  std::string type_;
  // Of what waits; none when it is asked for.
  RequestId request_;
  GroupId group_;
  std::vector<Answer> answers_;
  std::vector<Snapshot> snapshots_;
  // Similar ids, to suggest if `id_` is never submitted.
  std::vector<std::string> alike_;
};

} // namespace gpuactors::plan_detail
