// A model of your own behind gpuactors-serve: an actor type that says what it takes and answers, and infers batches.
// The server gives it batches, replaces it when it dies, and swaps versions (docs/guide/serving.md). This file is a
// plugin:
//
//   echo "1.8 32" > fahrenheit.txt
//   gpuactors-serve --model f=fahrenheit.txt,actor=examples/line,set=sensors=2 --plugin ./example_served_actor.so
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/elementwise.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

using google::protobuf::Empty;
using gpuactors::Result;
using gpuactors::value_or_throw;
namespace v1 = gpuactors::v1;

namespace {

// Calibrates the readings of sensors: y = slope x + offset. The file has the two numbers.
class Line : public gpuactors::FractionalGPUActor {
public:
  Line(gpuactors::Init init, const v1::ReplicaConfig& config) : FractionalGPUActor(std::move(init)) {
    const auto& settings = config.settings();
    if (const auto sensors = settings.find("sensors"); sensors != settings.end())
      sensors_ = std::stoll(sensors->second); // what a constructor throws is the reason why the model does not load
    if (const auto limit = settings.find("limit"); limit != settings.end())
      limit_ = std::stof(limit->second);
    value_or_throw(read(config));
    auto& stream = gpu().stream();
    x_ = value_or_throw(stream.tensor(gpuactors::DType::f32, {config.max_rows(), sensors_}));
    y_ = value_or_throw(stream.tensor(gpuactors::DType::f32, {config.max_rows(), sensors_}));
  }

  v1::ReplicaDescription describe(const Empty&) {
    v1::ReplicaDescription description;
    const auto fill = [this](v1::ReplicaTensor& tensor, const char* name) {
      tensor.set_name(name);
      tensor.set_datatype("FP32");
      tensor.add_row_shape(sensors_);
    };
    fill(*description.add_inputs(), "readings");
    fill(*description.add_outputs(), "values");
    description.set_memory_used_bytes(gpu().memory_used());
    return description;
  }

  Result<v1::ReplicaReply> infer(const v1::ReplicaBatch& batch) {
    const auto& readings = batch.inputs(0);
    const auto count = readings.size() / sizeof(float);
    GPUACTORS_TRY(check(readings, count));
    v1::ReplicaReply reply;
    auto& values = *reply.add_outputs();
    values.resize(readings.size());
    auto& stream = gpu().stream();
    // As much of the tensors as this batch needs.
    GPUACTORS_LET(x, x_.rows(0, batch.rows()));
    GPUACTORS_LET(y, y_.rows(0, batch.rows()));
    GPUACTORS_TRY(stream.upload_bytes(x, readings));
    GPUACTORS_TRY(stream.launch(gpuactors::kernels::fill_value<float>(), count, offset_, y));
    GPUACTORS_TRY(stream.launch(gpuactors::kernels::axpy<float>(), count, slope_, x, y));
    GPUACTORS_TRY(stream.download_bytes(values, y));
    GPUACTORS_TRY(stream.synchronize());
    return reply;
  }

private:
  Result<void> read(const v1::ReplicaConfig& config) {
    GPUACTORS_LET(file, tensors().get(config.file()));
    GPUACTORS_LET(bytes, file.host<std::uint8_t>());
    std::istringstream text{std::string{bytes.begin(), bytes.end()}};
    if (!(text >> slope_ >> offset_))
      return gpuactors::fail(gpuactors::Errc::invalid_argument, "the file does not have a slope and an offset");
    return {};
  }

  // An invalid_argument blames the input: only the request with the broken reading fails, not those in its batch.
  Result<void> check(const std::string& readings, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      float reading = 0;
      std::memcpy(&reading, readings.data() + i * sizeof(float), sizeof(float));
      if (!(std::abs(reading) <= limit_))
        return gpuactors::fail(gpuactors::Errc::invalid_argument, "a reading is beyond the limit: a sensor is broken");
    }
    return {};
  }

  std::int64_t sensors_ = 1;
  float limit_ = std::numeric_limits<float>::max();
  float slope_ = 1;
  float offset_ = 0;
  gpuactors::Tensor x_;
  gpuactors::Tensor y_;
};

GPUACTORS_ACTOR("examples/line", Line, v1::ReplicaConfig)
    .method("describe", &Line::describe)
    .method("infer", &Line::infer);

} // namespace
