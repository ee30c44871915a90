// A transformer too simple to be wrong: double precision, no cache, no batch, no fusion; every token attends by a plain
// loop. It shares configuration and weights with the real one, but no code that computes.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {

class NaiveTransformer {
 public:
  using Vector = std::vector<double>;

  NaiveTransformer(const HfConfig& config, const WeightSource& source) : config_(config), source_(source) {}

  // Logits of every token: [tokens][vocab_size].
  std::vector<Vector> Logits(const std::vector<TokenId>& tokens) {
    const Vector table = Load("model.embed_tokens.weight", {config_.vocab_size, config_.hidden_size});
    std::vector<Vector> hidden;
    for (const TokenId token : tokens) {
      const auto row = table.begin() + static_cast<std::ptrdiff_t>(std::size_t{token} * config_.hidden_size);
      hidden.emplace_back(row, row + config_.hidden_size);
    }
    for (std::uint32_t layer = 0; layer < config_.layer_count; ++layer) Layer(layer, hidden);
    const Vector output =
        config_.tie == EmbeddingTie::kTied ? table : Load("lm_head.weight", {config_.vocab_size, config_.hidden_size});
    const Vector norm = Load("model.norm.weight", {config_.hidden_size});
    for (Vector& row : hidden) row = Times(output, Normed(row, norm), {});
    return hidden;
  }

 private:
  Vector Load(const std::string& name, std::vector<std::uint64_t> shape) {
    const Weight weight = source_.Get(name, shape).value();
    Vector values(weight.elements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = kernels::LoadElement(weight.data, weight.dtype, i);
    return values;
  }

  // Empty if there is no bias.
  Vector BiasOf(Bias bias, const std::string& projection, std::uint64_t width) {
    return bias == Bias::kBiased ? Load(projection + ".bias", {width}) : Vector();
  }

  static Vector Times(const Vector& matrix, const Vector& x, const Vector& bias) {
    Vector y(matrix.size() / x.size());
    for (std::size_t n = 0; n < y.size(); ++n) {
      y[n] = bias.empty() ? 0 : bias[n];
      for (std::size_t k = 0; k < x.size(); ++k) y[n] += matrix[n * x.size() + k] * x[k];
    }
    return y;
  }

  Vector Normed(const Vector& x, const Vector& weight) const {
    double sum = 0;
    for (const double value : x) sum += value * value;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + config_.norm_epsilon);
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
    return y;
  }

  // The heads of `projection` for each token: normed and rotated unless it is v.
  std::vector<std::vector<Vector>> Heads(const std::string& prefix, char which, std::uint32_t count,
                                         const std::vector<Vector>& inputs) {
    const std::string name = prefix + which;
    const std::uint64_t width = std::uint64_t{count} * config_.head_dim;
    const Vector matrix = Load(name + "_proj.weight", {width, config_.hidden_size});
    const Vector bias = BiasOf(config_.qkv_bias, name + "_proj", width);
    const bool normed = config_.qk_norm == QkNorm::kNormed && which != 'v';
    const Vector norm = normed ? Load(name + "_norm.weight", {config_.head_dim}) : Vector();
    std::vector<std::vector<Vector>> heads(inputs.size());
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      const Vector all = Times(matrix, inputs[t], bias);
      for (std::uint32_t h = 0; h < count; ++h) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(h * config_.head_dim);
        Vector head(begin, begin + config_.head_dim);
        if (normed) head = Normed(head, norm);
        if (which != 'v') Rotate(t, head);
        heads[t].push_back(head);
      }
    }
    return heads;
  }

  void Rotate(std::size_t position, Vector& head) const {
    const std::size_t half = head.size() / 2;
    const auto* yarn = std::get_if<YarnScaling>(&config_.rope.scaling);
    const double factor = yarn != nullptr ? yarn->attention_factor : 1;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * Frequency(i);
      const double a = head[i];
      const double b = head[i + half];
      head[i] = (a * std::cos(angle) - b * std::sin(angle)) * factor;
      head[i + half] = (b * std::cos(angle) + a * std::sin(angle)) * factor;
    }
  }

  double Frequency(std::size_t i) const {
    const double frequency = std::pow(config_.rope.theta, -2.0 * static_cast<double>(i) / config_.head_dim);
    if (const auto* linear = std::get_if<LinearScaling>(&config_.rope.scaling)) return frequency / linear->factor;
    if (const auto* llama3 = std::get_if<Llama3Scaling>(&config_.rope.scaling)) return Stretched(frequency, *llama3);
    if (const auto* yarn = std::get_if<YarnScaling>(&config_.rope.scaling)) return Stretched(frequency, i, *yarn);
    return frequency;
  }

  static double Stretched(double frequency, const Llama3Scaling& scaling) {
    const double turns = scaling.original_max_positions * frequency / (2 * M_PI);  // in the original context
    if (turns > scaling.high_freq_factor) return frequency;
    if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
    const double share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    return frequency * (share + (1 - share) / scaling.factor);
  }

  double Stretched(double frequency, std::size_t i, const YarnScaling& scaling) const {
    const auto index_that_turns = [&](double times) {  // the pair's index as a real number
      const double frequency_there = times * 2 * M_PI / scaling.original_max_positions;
      return -std::log(frequency_there) / std::log(config_.rope.theta) * config_.head_dim / 2;
    };
    double begin = index_that_turns(scaling.beta_fast);
    double end = index_that_turns(scaling.beta_slow);
    if (scaling.bounds == YarnBounds::kWholeElements) begin = std::floor(begin), end = std::ceil(end);
    begin = std::max(begin, 0.0);
    end = std::min(end, config_.head_dim - 1.0);
    const double stretched_share = std::min(1.0, std::max(0.0, (static_cast<double>(i) - begin) / (end - begin)));
    return frequency * (1 - stretched_share + stretched_share / scaling.factor);
  }

  void Layer(std::uint32_t layer, std::vector<Vector>& hidden) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    AddAttention(prefix, hidden);
    const Vector norm = Load(prefix + "post_attention_layernorm.weight", {config_.hidden_size});
    const Vector gate = Load(prefix + "mlp.gate_proj.weight", {config_.intermediate_size, config_.hidden_size});
    const Vector up = Load(prefix + "mlp.up_proj.weight", {config_.intermediate_size, config_.hidden_size});
    const Vector down = Load(prefix + "mlp.down_proj.weight", {config_.hidden_size, config_.intermediate_size});
    const Vector gate_bias = BiasOf(config_.mlp_bias, prefix + "mlp.gate_proj", config_.intermediate_size);
    const Vector up_bias = BiasOf(config_.mlp_bias, prefix + "mlp.up_proj", config_.intermediate_size);
    const Vector down_bias = BiasOf(config_.mlp_bias, prefix + "mlp.down_proj", config_.hidden_size);
    for (Vector& row : hidden) {
      const Vector x = Normed(row, norm);
      Vector inner = Times(gate, x, gate_bias);
      const Vector factor = Times(up, x, up_bias);
      for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = inner[i] / (1 + std::exp(-inner[i])) * factor[i];
      Add(Times(down, inner, down_bias), row);
    }
  }

  void AddAttention(const std::string& prefix, std::vector<Vector>& hidden) {
    const Vector norm = Load(prefix + "input_layernorm.weight", {config_.hidden_size});
    std::vector<Vector> inputs;
    for (const Vector& row : hidden) inputs.push_back(Normed(row, norm));
    const std::string attention = prefix + "self_attn.";
    const auto q = Heads(attention, 'q', config_.query_head_count, inputs);
    const auto k = Heads(attention, 'k', config_.kv_head_count, inputs);
    const auto v = Heads(attention, 'v', config_.kv_head_count, inputs);
    const Vector o = Load(attention + "o_proj.weight",
                          {config_.hidden_size, std::uint64_t{config_.query_head_count} * config_.head_dim});
    const Vector bias = BiasOf(config_.o_bias, attention + "o_proj", config_.hidden_size);
    for (std::size_t t = 0; t < hidden.size(); ++t) {
      Vector joined;
      for (std::uint32_t h = 0; h < config_.query_head_count; ++h) {
        const Vector head = Attend(q[t][h], k, v, t, h / (config_.query_head_count / config_.kv_head_count));
        joined.insert(joined.end(), head.begin(), head.end());
      }
      Add(Times(o, joined, bias), hidden[t]);
    }
  }

  Vector Attend(const Vector& q, const std::vector<std::vector<Vector>>& k, const std::vector<std::vector<Vector>>& v,
                std::size_t t, std::uint32_t kv_head) const {
    Vector scores;
    double largest = -INFINITY;
    for (std::size_t j = 0; j <= t; ++j) {
      double score = 0;
      for (std::size_t d = 0; d < q.size(); ++d) score += q[d] * k[j][kv_head][d];
      scores.push_back(score / std::sqrt(static_cast<double>(q.size())));
      largest = std::max(largest, scores.back());
    }
    Vector out(q.size());
    double sum = 0;
    for (std::size_t j = 0; j <= t; ++j) {
      const double weight = std::exp(scores[j] - largest);
      sum += weight;
      for (std::size_t d = 0; d < q.size(); ++d) out[d] += weight * v[j][kv_head][d];
    }
    for (double& value : out) value /= sum;
    return out;
  }

  static void Add(const Vector& from, Vector& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  const HfConfig& config_;
  const WeightSource& source_;
};

}  // namespace roost::worker
