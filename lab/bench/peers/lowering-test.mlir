func.func @test_NUMBER(%a: tensor<NUMBERx8x16xf32>, %b: tensor<NUMBERx16x8xf32>, %c: tensor<NUMBERx8x8xf32>)
    -> tensor<NUMBERx8x8xf32> {
  %0 = "tosa.matmul"(%a, %b) : (tensor<NUMBERx8x16xf32>, tensor<NUMBERx16x8xf32>) -> tensor<NUMBERx8x8xf32>
  %1 = tosa.add %0, %c : (tensor<NUMBERx8x8xf32>, tensor<NUMBERx8x8xf32>) -> tensor<NUMBERx8x8xf32>
  %2 = tosa.tanh %1 : (tensor<NUMBERx8x8xf32>) -> tensor<NUMBERx8x8xf32>
  %3 = tosa.reduce_sum %2 {axis = 2 : i32} : (tensor<NUMBERx8x8xf32>) -> tensor<NUMBERx8x1xf32>
  %4 = tosa.sub %2, %3 : (tensor<NUMBERx8x8xf32>, tensor<NUMBERx8x1xf32>) -> tensor<NUMBERx8x8xf32>
  return %4 : tensor<NUMBERx8x8xf32>
}
