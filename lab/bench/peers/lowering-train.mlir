func.func @train_NUMBER(%a: memref<NUMBER0x32xf32>, %b: memref<32x1NUMBERxf32>, %c: memref<NUMBER0x1NUMBERxf32>) {
  linalg.matmul ins(%a, %b : memref<NUMBER0x32xf32>, memref<32x1NUMBERxf32>) outs(%c : memref<NUMBER0x1NUMBERxf32>)
  return
}
