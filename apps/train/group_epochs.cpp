// What the members of a group do together: epochs, checkpoints, and the evaluation at the end.
#include "group_run.hpp"

#include <algorithm>
#include <utility>

namespace train {

using gpuactors::Clock;
using gpuactors::Result;

Progress add_parts(Outcome& outcome, const std::vector<Progress>& parts) {
  const auto steps = parts.front().steps();
  const auto epoch = parts.front().epochs();
  const auto count = static_cast<std::size_t>(parts.front().losses_size());
  const auto first = static_cast<std::size_t>(steps - count - outcome.first_step);
  std::uint64_t rows = 0;
  for (const auto& part : parts)
    rows += part.rows();
  // What is not known died with a member that had not told it. Members that have learnt nothing report an epoch of
  // which they know the end alone.
  outcome.set_steps(first);
  outcome.epochs.resize(first + count, epoch);
  for (int i = 0; i < parts.front().losses_size(); ++i) {
    double loss = 0;
    for (const auto& part : parts)
      loss += part.losses(i);
    outcome.losses.push_back(Outcome::told(loss));
  }
  Progress whole;
  whole.set_epochs(epoch);
  whole.set_steps(steps);
  whole.set_rows(rows);
  whole.mutable_losses()->Add(outcome.losses.begin() + static_cast<std::ptrdiff_t>(first), outcome.losses.end());
  outcome.rows += rows;
  return whole;
}

void Group::note(const std::vector<Progress>& parts) {
  const auto whole = add_parts(outcome_, parts);
  if (!outcome_.losses.empty())
    loss_ = outcome_.losses.back();
  watcher_.progress(whole, outcome_);
}

Result<bool> Group::learn_epoch() {
  std::vector<gpuactors::Future<Progress>> learning;
  for (const auto& member : members_)
    learning.push_back(member.call<Progress>("epoch", google::protobuf::Empty{}, gpuactors::Duration::max()));
  std::vector<std::optional<Progress>> parts(learning.size());
  for (std::size_t done = 0; done < learning.size();) {
    if (watcher_.stop()) {
      outcome_.stopped = true;
      leave();
      return false;
    }
    for (const auto index : gpuactors::wait(learning, 1, look)) {
      auto part = learning[index].get();
      if (!part) {
        GPUACTORS_TRY(lose(part.error(), true));
        return false;
      }
      parts[index] = std::move(*part);
      ++done;
    }
  }
  std::vector<Progress> all;
  for (auto& part : parts)
    all.push_back(std::move(*part));
  epochs_ = all.front().epochs();
  note(all);
  return true;
}

Result<void> Group::save_if_due() {
  const auto every = std::max<std::uint64_t>(spec_.plan.checkpoint_epochs(), 1);
  const bool due = outcome_.stopped || epochs_ == spec_.epochs || epochs_ % every == 0;
  if (!due || (spec_.plan.checkpoint().empty() && !outcome_.stopped))
    return {};
  // Nothing is summed any more.
  by_nccl_ = by_nccl_ && !outcome_.stopped;
  Path path;
  path.set_path(spec_.plan.checkpoint());
  if (loss_)
    path.set_loss(*loss_);
  for (;;) {
    // Those who left an epoch go back to its beginning.
    GPUACTORS_TRY(join_all());
    if (path.path().empty())
      return {};
    const auto saved = await_answer<Status>(members_.front(), "save", path, watcher_);
    if (saved)
      return {};
    if (saved.error().code() == gpuactors::Errc::cancelled)
      return gpuactors::fail(saved.error());
    GPUACTORS_TRY(lose(saved.error(), false));
  }
}

template <class Reply>
Result<Reply> Group::ask_first(const char* method) {
  for (;;) {
    auto reply = await_answer<Reply>(members_.front(), method, google::protobuf::Empty{}, watcher_);
    if (reply || reply.error().code() == gpuactors::Errc::cancelled)
      return reply;
    GPUACTORS_TRY(lose(reply.error(), false));
  }
}

Result<void> Group::learn() {
  const auto begin = Clock::now();
  while (epochs_ < spec_.epochs && !outcome_.stopped) {
    GPUACTORS_TRY(join_all());
    GPUACTORS_LET(over, learn_epoch());
    outcome_.stopped = outcome_.stopped || (over && watcher_.stop());
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (over || outcome_.stopped)
      GPUACTORS_TRY(save_if_due());
  }
  GPUACTORS_LET(quality, ask_first<Evaluation>("evaluate"));
  GPUACTORS_LET(status, ask_first<Status>("status"));
  outcome_.quality = quality;
  outcome_.status = status;
  return {};
}

Result<GroupOutcome> Group::train() {
  GPUACTORS_TRY(start());
  if (const auto learnt = learn(); !learnt) {
    watcher_.fails(outcome_);
    return gpuactors::fail(learnt.error());
  }
  return GroupOutcome{std::move(outcome_), members_.size()};
}

} // namespace train
