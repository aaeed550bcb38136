#pragma once

#include <span>

namespace millrace {

/**
 * @brief Exact area under the ROC curve: among all pairs of a positive and a negative example, the
 *        fraction in which the positive one has the higher score; a tie counts half.
 * @param scores  any increasing function of the probability, for instance logits
 * @param labels  a label above 0.5 is positive
 * @return NaN without a positive or without a negative example, or if a score is NaN
 * @throws std::invalid_argument if the numbers of labels and scores differ
 */
[[nodiscard]] double area_under_curve(std::span<const float> scores, std::span<const float> labels);

/**
 * @brief Mean binary cross-entropy in nats, computed in double; 0 without examples.
 * @throws std::invalid_argument if the numbers of labels and logits differ
 */
[[nodiscard]] double mean_log_loss(std::span<const float> logits, std::span<const float> labels);

}  // namespace millrace
