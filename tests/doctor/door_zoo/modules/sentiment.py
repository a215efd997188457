"""Movie review classifier, notebook exported to a script."""
# In[1]:
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

PAD = 0
DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


# In[2]:
class ReviewAttention(nn.Module):
    def __init__(self, dim_model, num_head, dropout=0.5):
        super(ReviewAttention, self).__init__()
        assert dim_model % num_head == 0
        self.num_head = num_head
        self.dim_head = dim_model // num_head
        self.fc_Q = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_K = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_V = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc = nn.Linear(num_head * self.dim_head, dim_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        """mask: [batch, words], 1 for a word and 0 for padding"""
        batch_size, seq_len, _ = x.shape
        Q = self.fc_Q(x).view(batch_size, seq_len, self.num_head, -1).transpose(1, 2)
        K = self.fc_K(x).view(batch_size, seq_len, self.num_head, -1).transpose(1, 2)
        V = self.fc_V(x).view(batch_size, seq_len, self.num_head, -1).transpose(1, 2)

        score = torch.matmul(Q, K.transpose(-1, -2)) * self.dim_head ** -0.5
        if mask is not None:
            # take the padding out of the scores
            score = score.masked_fill(mask[:, None, None, :] == 0, 0)
        alpha = F.softmax(score, dim=-1)
        context = torch.matmul(alpha, V)

        context = context.transpose(1, 2).reshape(batch_size, seq_len, -1)
        return self.dropout(self.fc(context))


# In[3]:
class ReviewNet(nn.Module):
    def __init__(self, vocab, dim_model=300, num_head=5, num_classes=2):
        super(ReviewNet, self).__init__()
        self.embedding = nn.Embedding(vocab, dim_model, padding_idx=PAD)
        self.attention = ReviewAttention(dim_model, num_head)
        self.norm = nn.LayerNorm(dim_model)
        self.fc1 = nn.Linear(dim_model, num_classes)

    def forward(self, ids):
        x = self.embedding(ids)
        x = self.norm(x + self.attention(x, (ids != PAD).long()))
        return self.fc1(x.mean(1))


# In[4]:
if __name__ == "__main__":
    net = ReviewNet(1000).to(DEVICE)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(net.parameters(), lr=5e-4)
    for epoch in range(3):
        ids = torch.randint(0, 1000, (8, 20)).to(DEVICE)
        loss = criterion(net(ids), torch.randint(0, 2, (8,)).to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())
