// The steps of a decoder: products between the kernels of kernels.hpp.
#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/matrix.hpp>

#include <apps/llm/decoder.hpp>
#include <apps/llm/pages.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace llm {

using namespace gpuactors;

namespace {

constexpr std::size_t choice_words = sizeof(Choice) / sizeof(std::int32_t);
static_assert(sizeof(Choice) % sizeof(std::int32_t) == 0);

std::uint64_t count(std::int64_t number) {
  return static_cast<std::uint64_t>(number);
}

/// The numbers of each array that a step works in.
struct Widths {
  std::int64_t rows_f32;
  std::int64_t rows_weights;
  std::int64_t slots_f32;

  static Widths of(const Config& config) {
    return {config.width + config.query_width() + 2 * config.key_width() + 2 * config.inner_width,
            config.width + config.query_width() + config.inner_width, config.width + config.vocabulary + 1};
  }
};

} // namespace

std::uint64_t Decoder::page_bytes(const Config& config, DType dtype) {
  return count(config.layers) * 2 * page_tokens * count(config.key_width()) * size_of(dtype);
}

std::uint64_t Decoder::working_bytes(const Config& config, DType dtype, const Room& room) {
  const auto widths = Widths::of(config);
  const auto pages = (room.slots + 1) * pages_for(room.positions);
  const auto words = 3 * room.rows + (1 + static_cast<std::int64_t>(choice_words)) * room.slots + pages
                     + config.head_size + room.rows * widths.rows_f32 + room.slots * widths.slots_f32;
  // Devices round each array up.
  constexpr std::uint64_t rounding = 512;
  return count(words) * sizeof(float) + count(room.rows * widths.rows_weights) * size_of(dtype)
         + (count(config.layers) * 2 + 16) * rounding;
}

Result<std::unique_ptr<Decoder>> Decoder::make(Stream& stream, Config config, Weights weights, const Room& room) {
  std::unique_ptr<Decoder> decoder{new Decoder{stream, std::move(config), std::move(weights), room}};
  GPUACTORS_TRY(decoder->allocate());
  return decoder;
}

Decoder::Decoder(Stream& stream, Config config, Weights weights, const Room& room)
  : stream_(stream), config_(std::move(config)), weights_(std::move(weights)), room_(room),
    pages_a_slot_(pages_for(room.positions)) {
  const auto rows = static_cast<std::size_t>(room.rows);
  const auto slots = static_cast<std::size_t>(room.slots);
  layout_ = {rows, 2 * rows, 3 * rows, 3 * rows + slots, 3 * rows + slots + slots * choice_words};
  // Page 0 for those that have none.
  page_table_.resize((slots + 1) * static_cast<std::size_t>(pages_a_slot_), 0);
}

Decoder::~Decoder() {
  (void)stream_.synchronize();
}

Result<void> Decoder::allocate() {
  const auto type = weights_.dtype;
  const auto widths = config_.query_width() + 2 * config_.key_width();
  const auto make = [this](Tensor& tensor, DType dtype, std::vector<std::int64_t> shape) -> Result<void> {
    GPUACTORS_LET(made, stream_.tensor(dtype, std::move(shape)));
    tensor = std::move(made);
    return {};
  };
  GPUACTORS_LET(frequencies, stream_.tensor_from(config_.frequencies));
  frequencies_ = std::move(frequencies);
  keys_.resize(static_cast<std::size_t>(config_.layers));
  values_.resize(static_cast<std::size_t>(config_.layers));
  for (std::size_t i = 0; i < keys_.size(); ++i)
    for (auto* cache : {&keys_[i], &values_[i]}) {
      GPUACTORS_TRY(make(*cache, type, {(room_.pages + 1) * page_tokens, config_.key_width()}));
      GPUACTORS_TRY(stream_.zero(*cache));
    }
  GPUACTORS_TRY(make(device_pages_, DType::i32, {static_cast<std::int64_t>(page_table_.size())}));
  GPUACTORS_TRY(make(inputs_, DType::i32, {static_cast<std::int64_t>(layout_.words)}));
  GPUACTORS_TRY(make(x_, DType::f32, {room_.rows, config_.width}));
  GPUACTORS_TRY(make(normed_, type, {room_.rows, config_.width}));
  GPUACTORS_TRY(make(qkv_, DType::f32, {room_.rows, widths}));
  GPUACTORS_TRY(make(attended_, type, {room_.rows, config_.query_width()}));
  GPUACTORS_TRY(make(gate_up_, DType::f32, {room_.rows, 2 * config_.inner_width}));
  GPUACTORS_TRY(make(inner_, type, {room_.rows, config_.inner_width}));
  GPUACTORS_TRY(make(last_, DType::f32, {room_.slots, config_.width}));
  GPUACTORS_TRY(make(logits_, DType::f32, {room_.slots, config_.vocabulary}));
  GPUACTORS_TRY(make(chosen_, DType::i32, {room_.slots}));
  GPUACTORS_LET(host_inputs, stream_.context().host_buffer(layout_.words * sizeof(std::int32_t)));
  host_inputs_ = std::move(host_inputs);
  GPUACTORS_LET(host_chosen, stream_.context().host_buffer(count(room_.slots) * sizeof(std::int32_t)));
  host_chosen_ = std::move(host_chosen);
  // Once for nobody, so that graphs can be captured from the first step on.
  std::memset(host_inputs_.data(), 0, host_inputs_.bytes());
  write_inputs({}, 1, 1);
  GPUACTORS_TRY(stream_.upload(device_pages_, page_table_));
  GPUACTORS_TRY(queue(1, 1));
  return stream_.synchronize();
}

void Decoder::set_pages(std::int64_t slot, std::span<const std::int32_t> pages) {
  const auto begin = page_table_.begin() + static_cast<std::ptrdiff_t>(slot * pages_a_slot_);
  std::copy(pages.begin(), pages.end(), begin);
  std::fill(begin + static_cast<std::ptrdiff_t>(pages.size()), begin + static_cast<std::ptrdiff_t>(pages_a_slot_), 0);
  changed_slots_.push_back(slot);
}

Result<void> Decoder::warm_up() {
  for (std::int64_t rows = 1;; rows = std::min(2 * rows, room_.slots)) {
    // Once as it is, once as a graph.
    for (int i = 0; i < 2; ++i) {
      write_inputs({}, rows, rows);
      auto queued = queue_often(rows);
      // What was queued still reads the inputs.
      GPUACTORS_TRY(stream_.synchronize());
      GPUACTORS_TRY(std::move(queued));
    }
    if (rows == room_.slots)
      return {};
  }
}

// -- a step --------------------------------------------------------------------------------------

Result<std::vector<std::int32_t>> Decoder::run(const Step& step) {
  auto started = start(step);
  // Also if it did not start as a whole: what has may still read the inputs.
  auto done = stream_.synchronize();
  GPUACTORS_TRY(std::move(started));
  GPUACTORS_TRY(std::move(done));
  const auto* chosen = host_chosen_.data<std::int32_t>();
  return std::vector<std::int32_t>(chosen, chosen + step.wanted.size());
}

Result<void> Decoder::start(const Step& step) {
  const auto rows = static_cast<std::int64_t>(step.rows.size());
  const auto wanted = static_cast<std::int64_t>(step.wanted.size());
  if (rows < 1 || rows > room_.rows || wanted > room_.slots)
    return fail(Errc::invalid_argument, "a step has more rows than there is room for, or none");
  GPUACTORS_TRY(upload_pages());
  bool one_each = rows == wanted;
  for (std::int64_t i = 0; one_each && i < rows; ++i)
    one_each = step.wanted[static_cast<std::size_t>(i)].row == i;
  if (!one_each) {
    write_inputs(step, rows, wanted);
    return queue(rows, wanted);
  }
  const auto padded = std::min(room_.slots, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))));
  write_inputs(step, padded, padded);
  return queue_often(padded);
}

Result<void> Decoder::queue_often(std::int64_t rows) {
  auto& [has_run, may_be_graph, graph] = often_[rows];
  if (has_run && may_be_graph && !graph) {
    auto captured = stream_.capture([&] { return queue(rows, rows); });
    if (captured)
      graph = std::move(*captured);
    else if (captured.error().code() == Errc::context_lost)
      return fail(captured.error());
    // Broken off by somebody else, it is tried again at the next step.
    may_be_graph = captured || captured.error().code() == Errc::unavailable;
  }
  has_run = true;
  return graph ? stream_.launch(graph) : queue(rows, rows);
}

void Decoder::write_inputs(const Step& step, std::int64_t rows, std::int64_t wanted) {
  auto* words = host_inputs_.data<std::int32_t>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    const auto row = i < step.rows.size() ? step.rows[i] : Row{0, 0, static_cast<std::int32_t>(room_.slots)};
    words[i] = row.token;
    words[layout_.positions + i] = row.position;
    words[layout_.slots + i] = row.slot;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(wanted); ++i) {
    const auto one = i < step.wanted.size() ? step.wanted[i] : Wanted{static_cast<std::int32_t>(i), Choice{}};
    words[layout_.wanted + i] = one.row;
    std::memcpy(words + layout_.choices + i * choice_words, &one.choice, sizeof(Choice));
  }
}

Result<void> Decoder::upload_pages() {
  for (const auto slot : changed_slots_) {
    const auto at = slot * pages_a_slot_;
    GPUACTORS_TRY(stream_.upload(device_pages_.data<std::int32_t>() + at, page_table_.data() + at,
                                 count(pages_a_slot_) * sizeof(std::int32_t)));
  }
  // The table may change as soon as this step is over, which is waited for.
  changed_slots_.clear();
  return {};
}

Result<void> Decoder::queue(std::int64_t rows, std::int64_t wanted) {
  GPUACTORS_TRY(stream_.upload(inputs_.raw(), host_inputs_.data(), host_inputs_.bytes()));
  if (weights_.dtype == DType::f16)
    GPUACTORS_TRY(queue_layers<Float16>(rows, wanted));
  else if (weights_.dtype == DType::bf16)
    GPUACTORS_TRY(queue_layers<BFloat16>(rows, wanted));
  else
    GPUACTORS_TRY(queue_layers<float>(rows, wanted));
  if (wanted == 0)
    return {};
  const auto* choices = reinterpret_cast<const Choice*>(input(layout_.choices));
  GPUACTORS_TRY(stream_.launch(choose_tokens, Blocks{count(wanted)}, count(config_.vocabulary), choices,
                               logits_.data<float>(), chosen_.data<std::int32_t>()));
  return stream_.download(host_chosen_.data(), chosen_.raw(), count(wanted) * sizeof(std::int32_t));
}

template <class W>
Result<void> Decoder::queue_layers(std::int64_t rows, std::int64_t wanted) {
  GPUACTORS_TRY(stream_.launch(embed_tokens<W>(), count(rows * config_.width), count(config_.width), input(0),
                               weights_.table, x_));
  for (std::size_t i = 0; i < weights_.layers.size(); ++i)
    GPUACTORS_TRY(queue_layer<W>(rows, i));
  if (wanted == 0)
    return {};
  // Only the rows whose next token is wanted, whose norms take the place of those of the others.
  const auto tiling = kernels::Tiling::of(count(config_.width), 1);
  GPUACTORS_TRY(stream_.launch(kernels::gather_rows<float>(), count(wanted * config_.width), tiling,
                               input(layout_.wanted), x_, last_));
  GPUACTORS_TRY(stream_.launch(rms_norm<W>(), Blocks{count(wanted)}, count(config_.width), config_.norm_epsilon, last_,
                               weights_.norm, normed_));
  return multiply(wanted, normed_.raw(), weights_.last(), logits_.data<float>(), 0);
}

template <class W>
Result<void> Decoder::queue_layer(std::int64_t rows, std::size_t index) {
  const auto& layer = weights_.layers[index];
  const auto width = count(config_.width);
  const auto inner = count(config_.inner_width);
  const auto sizes = heads();
  GPUACTORS_TRY(stream_.launch(rms_norm<W>(), Blocks{count(rows)}, width, config_.norm_epsilon, x_,
                               layer.attention_norm, normed_));
  GPUACTORS_TRY(multiply(rows, normed_.raw(), layer.qkv, qkv_.data<float>(), 0));
  if (layer.qkv_bias)
    GPUACTORS_TRY(stream_.launch(kernels::add_to_rows<float>(), count(rows) * sizes.width(), sizes.width(),
                                 layer.qkv_bias, qkv_));
  const auto pairs = count(rows) * (sizes.query + 2 * sizes.key) * (sizes.size / 2);
  GPUACTORS_TRY(
      stream_.launch(rotate_and_keep<W>(), pairs, sizes, places(), frequencies_, qkv_, keys_[index], values_[index]));
  const auto shared = shared_bytes<float>(attention_tile) + shared_bytes<float>(sizes.size);
  GPUACTORS_TRY(stream_.launch(attend<W>(), Blocks{count(rows) * sizes.query, shared}, sizes, places(), qkv_,
                               keys_[index], values_[index], attended_));
  GPUACTORS_TRY(multiply(rows, attended_.raw(), layer.attention_out, x_.data<float>(), 1));
  GPUACTORS_TRY(
      stream_.launch(rms_norm<W>(), Blocks{count(rows)}, width, config_.norm_epsilon, x_, layer.inner_norm, normed_));
  GPUACTORS_TRY(multiply(rows, normed_.raw(), layer.gate_up, gate_up_.data<float>(), 0));
  GPUACTORS_TRY(stream_.launch(silu_times<W>(), count(rows) * inner, inner, gate_up_, inner_));
  return multiply(rows, inner_.raw(), layer.down, x_.data<float>(), 1);
}

Result<void> Decoder::multiply(std::int64_t rows, const void* a, const Tensor& weights, float* c, double beta) {
  const auto outputs = weights.shape()[0];
  const auto inputs = weights.shape()[1];
  Gemm product;
  product.dtype = weights_.dtype;
  product.result = DType::f32;
  product.transpose_b = true;
  product.m = rows;
  product.n = outputs;
  product.k = inputs;
  product.a = a;
  product.lda = inputs;
  product.b = weights.raw();
  product.ldb = inputs;
  product.beta = beta;
  product.c = c;
  product.ldc = outputs;
  return stream_.gemm(product);
}

const std::int32_t* Decoder::input(std::size_t word) const {
  return static_cast<const std::int32_t*>(inputs_.raw()) + word;
}

Places Decoder::places() const {
  return {input(layout_.positions), input(layout_.slots), static_cast<const std::int32_t*>(device_pages_.raw()),
          count(pages_a_slot_)};
}

Heads Decoder::heads() const {
  return {count(config_.query_heads), count(config_.key_heads), count(config_.head_size)};
}

} // namespace llm
