// A plugin as it should be: a task and an actor with messages of their own.
#include <gpuactors/gpuactors.hpp>

#include <plugintest/v1/words.pb.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

using namespace gpuactors;
using plugintest::v1::Tally;
using plugintest::v1::Words;

namespace {

Words reverse(TaskContext&, const Words& in) {
  Words out = in;
  std::reverse(out.mutable_words()->begin(), out.mutable_words()->end());
  for (auto& word : *out.mutable_words()) {
    ++(*out.mutable_counts())[word];
    if (in.letters() == Words::UPPER)
      std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::toupper(c); });
  }
  return out;
}

class Counter : public FractionalGPUActor {
public:
  Counter(Init init, const Tally& start) : FractionalGPUActor(std::move(init)), count_(start.count()) {
    // nop
  }

  Tally count(const Words& in) {
    count_ += in.words_size();
    Tally out;
    out.set_count(count_);
    out.set_pid(std::to_string(::getpid()));
    return out;
  }

  void each(const Words& in, ReplyStream<Words>& out) {
    for (const auto& word : in.words()) {
      Words item;
      item.add_words(word);
      if (!out.write(item))
        return;
    }
  }

private:
  std::int64_t count_;
};

} // namespace

GPUACTORS_TASK("words.reverse", reverse).needs({.cpus = 0.5});
GPUACTORS_ACTOR("words.counter", Counter, Tally)
    .method("count", &Counter::count)
    .method("each", &Counter::each)
    .needs({.gpus = 0.25});
